"""Rule V307: arguments of a Trainer that exclude each other, which it refuses at the start."""

import ast
import math
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.library_names import root_and_last
from preflight.script.rules.own_measures import get_last_name, list_stores
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, ExternalName, Value
from preflight.script.values.constants import FALSE, NONE, TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, place_of

_EVALUATES = ("eval_strategy", "evaluation_strategy")
_STEPS = 500  # what save_steps and logging_steps are by default
_GIVES_DATA = re.compile(r"\.eval_dataset *=[^=]|def (?:get_eval_dataloader|evaluate|evaluation_loop)\b")
_STOPS = re.compile(r"(?<![\w.])(?:transformers\.)?EarlyStoppingCallback\(")
_PLATEAU = "reduce_lr_on_plateau"
_BEFORE_DATA = 4  # arguments by position in front of the datasets, of any Trainer
_BEST = "load_best_model_at_end"


@rule("V307", "arguments", "trainer")
def refused_by_the_trainer(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A Trainer, or its TrainingArguments, are given what they refuse together.

    load_best_model_at_end needs checkpoints at the evaluations: the same strategy for both, and a save_steps
    that is a multiple of eval_steps. reduce_lr_on_plateau and EarlyStoppingCallback need an evaluation, an
    evaluation needs an eval_dataset, and a streamed dataset max_steps. Each raises before the first step.
    Source: transformers/training_args.py, trainer.py and trainer_callback.py of transformers 5.24.
    """
    call = event.call
    if call is None:
        return
    if event.name == "trainer":
        yield from _of_trainer(it, event, call)
        return
    thing = it.thing(event.ref)
    if thing is None or thing.get("open") == TRUE or (thing.get("parsed") == TRUE and it.target.args is None):
        return
    found = _of_best_model(thing)
    waits = _word(thing, "lr_scheduler_type") == _PLATEAU and _strategy(thing) == "no"
    if found is None and waits:
        found = ("lr_scheduler_type",), f'{_PLATEAU} waits for an evaluation, and eval_strategy is "no"'
    if found is None and all(as_bool(thing.get(f"{name}_full_eval")) for name in ("fp16", "bf16")):
        found = ("bf16_full_eval", "fp16_full_eval"), "fp16_full_eval and bf16_full_eval are both on"
    if found is not None:
        words, message = found
        given = [word for word in words if word in call.places]
        spots = [call.get_place(word) for word in given] or [event.place]
        by_option = any(place_of(thing.get(word)) in it.options.places for word in words)
        level = Level.WARNING if by_option else Level.ERROR
        fix = _FIXES.get(words[0], "leave one of them out")
        yield RuleHit(spots[0], message, fix, level, (*spots[1:], event.place))


_FIXES = {
    "save_steps": "write a save_steps that is a multiple of eval_steps",
    "save_strategy": "give eval_strategy and save_strategy the same value",
    "lr_scheduler_type": 'eval_strategy="epoch"',
}


def _of_best_model(thing: HeapObject) -> tuple[tuple[str, ...], str] | None:
    """Return the arguments with which load_best_model_at_end is refused, and why."""
    evaluates, saves = _strategy(thing), _word(thing, "save_strategy", "steps")
    if as_bool(thing.get(_BEST)) is not True or not evaluates or saves in ("", "best"):
        return None
    if evaluates != saves:
        said = f'{_BEST} needs one strategy for both: eval_strategy is "{evaluates}", save_strategy "{saves}"'
        return ("save_strategy", *_EVALUATES, _BEST), said
    if evaluates != "steps":
        return None
    every, kept = _number(thing, "eval_steps", 0), _number(thing, "save_steps", _STEPS)
    every = _number(thing, "logging_steps", None if _is_of_trl(thing) else _STEPS) if every == 0 else every
    if not every or not kept or _divides(every, kept):
        return None
    said = (
        f"{_BEST} needs a save_steps that is a multiple of eval_steps, and {kept:g} is not one of {every:g}"
    )
    return ("save_steps", "eval_steps", _BEST), said


def _divides(every: float, kept: float) -> bool:
    if (every < 1) is not (kept < 1):
        return False
    if every < 1:
        return math.isclose(kept / every, round(kept / every))
    return kept % every == 0


def _is_of_trl(thing: HeapObject) -> bool:
    return thing.get("trl") == TRUE


def _number(thing: HeapObject, name: str, default: float | None) -> float | None:
    """Return a number of steps; None where it is not known."""
    value = thing.get(name)
    if value == NONE:
        return default
    known = isinstance(value, Const) and type(value.value) in (int, float)
    return float(value.value) if known and isinstance(value, Const) and value.value is not None else None


def _strategy(thing: HeapObject) -> str:
    """Return when evaluations are made, "" where that is not known."""
    given = [name for name in _EVALUATES if thing.get(name) != NONE]
    return _word(thing, given[0]) if given else "no"


def _word(thing: HeapObject, name: str, default: str = "") -> str:
    """Return an argument that is a word or a member of an enumeration, "" where it is not known."""
    value: Value = thing.get(name)
    if value == NONE:
        return default
    if isinstance(value, ExternalName):
        return value.name.rpartition(".")[2].lower()
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else ""


def _of_trainer(it: Interpreter, event: ScriptEvent, call: Call) -> Iterator[RuleHit]:
    """Yield what a Trainer lacks: data for its evaluations, evaluations to stop by, a number of steps."""
    args = it.thing(event.values.get("args"))
    if args is None or args.kind != "arguments" or args.get("open") == TRUE or call.open:
        return
    if args.get("parsed") == TRUE and it.target.args is None:
        return
    strategy, given = _strategy(args), {word.arg: word.value for word in call.node.keywords}
    no_data = call.get("eval_dataset") in (None, NONE) and len(call.args) < _BEFORE_DATA
    own = root_and_last(event.what)[0] not in ("transformers", "trl")  # which may evaluate otherwise
    if strategy in ("steps", "epoch") and no_data and not own and not it.sources.mention(_GIVES_DATA):
        message = f'eval_strategy is "{strategy}", and the Trainer gets no eval_dataset'
        yield RuleHit(
            event.place, message, 'eval_dataset=..., or eval_strategy="no"', Level.ERROR, (args.place,)
        )
    callbacks = given.get("callbacks")
    if callbacks is not None and not isinstance(callbacks, ast.IfExp) and _STOPS.search(unparse(callbacks)):
        message = 'EarlyStoppingCallback compares what evaluations give, and eval_strategy is "no"'
        if strategy not in ("", "no") and _lacks_metric(args):
            message = f"EarlyStoppingCallback needs metric_for_best_model, which {_BEST}=True sets as well"
        if strategy == "no" or (strategy and _lacks_metric(args)):
            fix = 'eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True'
            yield RuleHit(call.get_place("callbacks"), message, fix, Level.ERROR, (args.place,))
    steps, data = _number(args, "max_steps", 0), given.get("train_dataset")
    if steps is not None and steps <= 0 and data is not None and _is_streamed(it, data):
        message = "a streamed dataset has no length, and no max_steps says when the training ends"
        fix = "max_steps=... in place of num_train_epochs"
        yield RuleHit(call.get_place("train_dataset"), message, fix, Level.ERROR, (args.place,))


def _lacks_metric(args: HeapObject) -> bool:
    """Whether nothing names the metric of the best model: these set it to the loss where it is not given."""
    best, plan = args.get(_BEST), _word(args, "lr_scheduler_type", "linear")
    return args.get("metric_for_best_model") == NONE and best in (NONE, FALSE) and plan not in ("", _PLATEAU)


def _is_streamed(it: Interpreter, data: ast.expr) -> bool:
    """Whether a dataset is what load_dataset(..., streaming=True) gives, through methods that it has."""
    pending, seen = [data], set[str]()
    stores = it.sources.parser.find(list_stores, it.scope)
    streams = False
    for given in pending:  # which grows
        made = _find_root(given)
        if isinstance(made, ast.Call):
            words = {word.arg: word.value for word in made.keywords}
            if get_last_name(made) != "load_dataset" or "streaming" not in words:
                return False
            if it.evaluate(words["streaming"]) != TRUE:
                return False
            streams = True
        elif isinstance(made, ast.Name) and made.id not in seen:
            seen.add(made.id)
            values = [value for value, node in stores.get(made.id, ()) if not isinstance(node, ast.Expr)]
            pending += values or [ast.Call(func=made, args=[], keywords=[])]  # of what is not known
    return streams


def _find_root(expr: ast.expr) -> ast.expr:
    """Return what a chain of methods, attributes and keys starts with: a name, or load_dataset(...)."""
    while get_last_name(expr) != "load_dataset":
        if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute):
            expr = expr.func.value
        elif isinstance(expr, (ast.Attribute, ast.Subscript)):
            expr = expr.value
        else:
            break
    return expr
