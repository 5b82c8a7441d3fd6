"""Rule P118: autocasts of the script beside the precision of the launch."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import MAYBE, OF_SOME
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_names import name_of
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import find_start, walk
from preflight.script.values import Const, Dtype, ExternalName, Ref
from preflight.script.values.constants import TRUE
from preflight.script.values.operations import as_text, list_values

_VALIDATES = re.compile(
    r"(?:^|_)(?:valid|validate|validation|eval|evaluate|evaluation|test|sample|infer|inference|generate|predict)(?:_|$)"
)

_SAMPLES = re.compile(r"(?:^|_)(?:pipe|pipeline|generate)$")
_FULL, _OF_ITS_OWN = ("accelerator", Const("no")), "takes no precision from the launch"
_FOLLOWS = {"trained": "self.compute_loss_context_manager()"}
_STEPS = frozenset({"backward", "manual_backward", "step"})


@dataclass(frozen=True, slots=True)
class DecidedBy:
    """Note of what decides on the precision, by the event that makes it: an Accelerator, a Trainer."""

    event: str


@rule(
    "P118", "accelerator", "lightning", "arguments", "autocast", "step", "scaler step", "trained", "backward"
)
def autocast_beside_the_launch(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The script's own autocast, of another precision than accelerate's or the Trainer's.

    Inside the block the script's dtype wins, and nothing scales the loss for it: fp16 without a scaler loses
    small gradients, and bf16 under an fp16 scaler is scaled for nothing. With a bare Accelerator() the rest
    depends on the machine's flag or config file. accelerator.autocast() follows the launch.
    Source: accelerate/accelerator.py, prepare_model and autocast.
    """
    if event.name in ("accelerator", "lightning", "arguments"):
        it.note(DecidedBy(event.name), event.place)
        thing = it.thing(event.ref)
        if thing is not None:
            name = "requested" if event.name == "arguments" else "mixed_precision"
            it.requested[event.place] = thing.get(name)
            if event.name == "lightning" or (event.name, thing.get("requested")) == _FULL:
                it.note(_OF_ITS_OWN, event.place)
    elif event.name == "autocast":
        training = "no_grad" not in it.contexts and (it.loop_depth or "training" in it.contexts)
        training = training and OF_SOME.union((MAYBE,)).isdisjoint(it.contexts) and not is_in_validation(it)
        training = training and not _is_around_others(it, event)
        if training and event.values.get("enabled") == TRUE and event.what == "cuda":
            dtype = event.values.get("dtype")
            if isinstance(dtype, Dtype):
                it.autocasts[event.place] = dtype.name
    elif it.autocasts and _steps_alone(it, event):
        it.autocasts.clear()  # of a loop of its own, such as a baseline beside the one that is launched
    elif (
        it.autocasts
        and event.name != "scaler step"
        and len(it.requested) == 1
        and (event.name != "backward" or event.what == "accelerator")
    ):
        where, requested = next(iter(it.requested.items()))
        if where in it.notes.get(DecidedBy("arguments"), ()) and not (
            event.name == "trained" or "training" in it.contexts
        ):
            return  # of a loop of the script's own, which only reads its options from them
        words = {as_text(item) for item in list_values(requested)}
        for place, name in it.autocasts.items():
            mine = {"float16": "fp16", "bfloat16": "bf16"}.get(name, "no")
            full = mine == "bf16" and where in it.notes.get(_OF_ITS_OWN, ())
            if mine in words or mine == "no" or (full and words == {"no"}):
                continue  # which takes no precision from the launch: a part in bf16 beside float32 is right
            known = ", ".join(sorted(word for word in words if word))
            beside = f"mixed precision of the launch is {known}" if known else "rest is as the launch says"
            message = f"autocast is {mine}, and the {beside}"
            follows = (
                _FOLLOWS.get(event.name)
                or f"{name_of(it, 'accelerator', it.frame) or 'accelerator'}.autocast()"
            )
            named = place.path == event.place.path  # where the Accelerator has its name
            fix = f"{follows}, or leave it to the launch" if named else "remove it: the launch decides"
            yield RuleHit(place, message, fix, Level.WARNING, (where,))


def _steps_alone(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether an optimizer steps that no Accelerator has prepared."""
    if event.name not in ("step", "scaler step"):
        return False
    ref = event.ref if event.name == "step" else event.values.get("optimizer")
    optimizer = it.thing(ref) if isinstance(ref, (int, Ref)) else None
    return optimizer is not None and not isinstance(optimizer.get("accelerator"), Ref)


def is_in_validation(it: Interpreter) -> bool:
    """Whether the innermost function is one that evaluates, by its name, and steps nothing itself.

    A `with` block that only has a pipeline make samples is validation too, wherever it is.
    """
    if _makes_samples(it.block):
        return True
    function = it.function
    if function is None or not _VALIDATES.search(getattr(function.node, "name", "")):
        return False
    return _STEPS.isdisjoint(_called(function.node))


def _is_around_others(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether a decorator's function calls nothing that is prepared: an encoder that serves."""
    functions = it.sources.parser.list_nodes(it.source.tree, ast.FunctionDef)
    decorated = (node for node in functions if event.place in map(it.place, node.decorator_list))
    node = next(decorated, None)
    if node is None or not _STEPS.isdisjoint(_called(node)):
        return False
    calls = [part.func for item in node.body for part in walk(item) if isinstance(part, ast.Call)]
    roots = [each for each in map(find_start, calls) if not isinstance(it.evaluate(each), ExternalName)]
    if not roots or any(not isinstance(root, ast.Name) or root.id == "self" for root in roots):
        return False
    things = [it.thing(it.evaluate(root)) for root in roots]
    return not any(thing is not None and isinstance(thing.get("accelerator"), Ref) for thing in things)


def _makes_samples(block: list[ast.stmt]) -> bool:
    called = {name for statement in block for name in _called(statement)}
    return any(map(_SAMPLES.search, called)) and called.isdisjoint(_STEPS)


def _called(node: ast.AST) -> Iterator[str]:
    for each in walk(node):
        if isinstance(each, ast.Call) and isinstance(each.func, (ast.Attribute, ast.Name)):
            yield each.func.attr if isinstance(each.func, ast.Attribute) else each.func.id
