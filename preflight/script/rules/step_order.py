"""Rules P135 to P137: what of a training step is done too early, never, or to something else."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.branch_conditions import UNCALLED
from preflight.script.interpreter.events import OWN_STEP, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.method_calls import group_calls, note_call
from preflight.script.rules.own_names import call_at, step_at
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Class, Const, Dtype, ExternalName, Ref, Value
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.operations import list_values

_QUIET = (
    r"zero_grad|step(?=\(\w*\))|update(?=\(\d*\))|unscale_|clip_grad_\w+|(?:master_)?parameters|no_grad|is\w*"
    r"|item|detach|cpu|mean|sum|m(?:ax|in)|len|range|enumerate|float|int|str|round|format|print|append|info"
    r"|debug|warning|log|write|add_scalar|set_\w+|get_last_lr|time|perf_counter|synchronize|barrier"
)
_MAY_MAKE = re.compile(rf"\.grad\b|[\])]\(|\b(?:def|class)\b|\b(?!(?:{_QUIET})\()\w+\(")
"""What may give a step gradients again, behind zero_grad(): any call but those that surely do not."""


@rule("P135", "backward", "scaled", "zero grad", "step", "scaler step")
def gradients_dropped(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """optimizer.zero_grad() between backward() and step(), or in each turn where some turns step.

    The step has no gradients: without a scaler the weights stay as they are, and the loss never falls; a
    scaler stops with "No inf checks were recorded for this optimizer". Where each turn drops them, a step in
    every eighth turn has the gradients of one, and the seven others are computed for nothing. So is it where
    accelerator.accumulate() is around zero_grad(), backward() and step() in this order: a prepared optimizer
    drops gradients in the turn that steps.
    Source: torch's documentation of optimizers; reproduced with torch 2.13.
    """
    if event.name in ("backward", "scaled"):
        made = Const("of some turns") if it.tests else TRUE
        for number, thing in it.state.heap.items():
            if thing.kind == "optimizer" and thing.get("gradients") != made:  # a change copies
                it.change(number, gradients=made)
        return
    ref = event.values.get("optimizer") if event.name == "scaler step" else Ref(event.ref or 0)
    if not isinstance(ref, Ref):
        return
    before = it.attr(ref, "gradients")
    if event.name == "zero grad":
        yield from _cleared_before_the_last(it, event)
        left = Dtype("dropped", event.place)
        it.change(
            ref.id,
            gradients=left if isinstance(before, Const) and before != NONE else NONE,
            emptied=NONE if it.tests else left,
        )
        return
    yield from _emptied_in_each_turn(it, event, ref)
    it.change(ref.id, gradients=NONE)
    dropped = before.place if isinstance(before, Dtype) else None
    closure = event.name == "step" and event.call and (event.call.args or event.call.kwargs)
    if dropped is None or event.what == OWN_STEP or not it.loop_depth or closure:
        return
    between = it.source.lines[dropped.line - 1 : event.place.line - 1]
    if dropped.path == event.place.path and between and not any(map(_MAY_MAKE.search, between)):
        message = "zero_grad() drops the gradients of this backward() before the step"
        yield RuleHit(
            dropped, message, "zero_grad() after step(), or before backward()", Level.ERROR, (event.place,)
        )


def _cleared_before_the_last(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield a zero_grad() before the backward() in accelerator.accumulate(): it holds in the last turn."""
    line = event.place.line
    for node in it.list_nodes(ast.With) if event.call is not None else ():
        first = (item.value for item in node.body if isinstance(item, ast.Expr))  # enter_context(...)
        opened = [part for each in (node.items[0].context_expr, *first) for part in walk(each)]
        methods = (part for part in opened if isinstance(part, ast.Attribute))
        func = next((part for part in methods if part.attr == "accumulate"), None)
        if func is None:
            continue
        calls = [part for part in walk(node) if isinstance(part, ast.Call)]
        backward = [part.lineno for part in calls if getattr(part.func, "attr", "") == "backward"]
        zeros = [part.lineno for part in calls if getattr(part.func, "attr", "") == "zero_grad"]
        if not backward or zeros != [line] or line > min(backward) or not _accumulates(it, func.value):
            continue
        message = "the last of the accumulated turns drops the gradients of those before it"
        yield RuleHit(event.place, message, "zero_grad() after step()", Level.WARNING)


def _accumulates(it: Interpreter, owner: ast.expr) -> bool:
    """Whether an Accelerator is made for several turns to a step."""
    thing = it.thing(it.evaluate(owner))
    made = call_at(it, thing.place) if thing is not None else None
    given = (
        [word.value for word in made.keywords if word.arg == "gradient_accumulation_steps"] if made else []
    )
    steps = it.evaluate(given[0]) if given else NONE
    return isinstance(steps, Const) and isinstance(steps.value, int) and steps.value > 1


def _emptied_in_each_turn(it: Interpreter, event: ScriptEvent, optimizer: Ref) -> Iterator[RuleHit]:
    emptied, loop = it.attr(optimizer, "emptied"), it.loops[-1] if it.loops else None
    place = emptied.place if isinstance(emptied, Dtype) else None
    if place is None or loop is None or loop.number or it.attr(optimizer, "gradients") != TRUE:
        return
    turns = [part for test in it.tests for part in walk(test) if type(part) is ast.BinOp]
    some = [part.right for part in turns if type(part.op) is ast.Mod]
    inside = place.path == loop.place.path == event.place.path and _is_within(it, loop.place, place)
    if not inside or len(some) != 1 or it.evaluate(some[0]) == Const(1):
        return
    parts = unparse(some[0])  # of which a sum is made: other optimizers may have the other turns
    text = "\n".join(it.source.lines[loop.place.line - 1 : max(place.line, event.place.line)])
    sums = _SUMS.search(parts) or re.search(rf"/=? *\(?{re.escape(parts)}\b", text)
    if sums and not re.search(r"\.grad\b", text) and it.attr(optimizer, "prepared") != TRUE:
        message = "this drops the gradients of each turn, and some turns only make a step"
        fix = "zero_grad() behind step(), under its condition"
        yield RuleHit(place, message, fix, Level.WARNING, (event.place,))


def _is_within(it: Interpreter, loop: CodeLocation, place: CodeLocation) -> bool:
    """Whether a line is in a loop of the function that is read."""
    loops = (node for node in it.list_nodes(ast.For, ast.While) if it.place(node) == loop)
    return any(node.lineno < place.line <= (node.end_lineno or 0) for node in loops)


_SUMS = re.compile(r"(?i)accum|micro|grad_?acc|parts")


_STEPS = "steps without zero_grad"
_ZERO_GRAD = re.compile(r"zero_grad\b")
"""Found in a tenth of the time that the forms take of which it is one, and in nearly all scripts."""
_EMPTIES = re.compile(
    r"(?i)zero_?grad|\.grad\b|optimizer_zero|set_to_none|(?:clear|reset|drop|clean|empty|wipe|free)\w*\("
    r"[^()]*(?:opt|model|param|net)|(?:clear|reset|drop|clean|empty|wipe|free)\w*grad"
)


@rule("P136", "backward", "scaled", "step", "scaler step", "end")
def gradients_never_dropped(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A loop steps an optimizer, and nothing ever calls zero_grad().

    backward() adds to the gradients that exist: each step is then one of the sum of all batches so far. The
    loss falls at first and then explodes. Nothing raises.
    Source: torch's documentation of Optimizer.zero_grad.
    """
    if event.name in ("backward", "scaled"):
        it.note("makes gradients", event.place)
    elif event.name != "end":
        ref = event.values.get("optimizer") if event.name == "scaler step" else Ref(event.ref or 0)
        optimizer = it.thing(ref) if isinstance(ref, Ref) else None
        again = isinstance(ref, Ref) and any(ref.id <= loop.newest for loop in it.loops)
        known = event.what != OWN_STEP and UNCALLED not in it.contexts
        if it.loop_depth and it.drawn and again and known and optimizer is not None:
            note_call(it, _STEPS, optimizer.place, event.place)
    elif it.notes.get("makes gradients") and (steps := group_calls(it, _STEPS)):
        if it.sources.mention(_ZERO_GRAD) or it.sources.mention(_EMPTIES):
            return
        sure = [place for made, place in steps if not _is_handed_on(it, made)]
        message = "this steps in a loop, and nothing ever calls zero_grad(): gradients of all batches add up"
        for place in sure[:1]:
            yield RuleHit(place, message, f"{step_at(it, place)[1]}.zero_grad() after it", Level.WARNING)


def _is_handed_on(it: Interpreter, made: CodeLocation) -> bool:
    """Whether code that was not read got an optimizer, or an object that holds it, or is a base of that."""
    held = [Ref(number) for number, thing in it.state.heap.items() if thing.place == made]
    for thing in it.state.heap.values():
        if thing.place != made and not any(value in held for value in thing.attrs.values()):
            continue
        cls = thing.get("__class__")
        bases = [base for info in (it.mro(cls.key) if isinstance(cls, Class) else ()) for base in info.bases]
        if thing.get("touched") == TRUE or any(_is_unread(it, base) for base in bases):
            return True
    return False


def _is_unread(it: Interpreter, base: Value) -> bool:
    if isinstance(base, ExternalName):
        return not (
            it.library.class_kind(base.name) or base.name.startswith(("builtins.", "abc.", "typing."))
        )
    return not isinstance(base, Class)


@rule("P137", "prepared")
def prepared_and_lost(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """What accelerator.prepare() returns is thrown away, or gets names in another order.

    It returns what it is given, wrapped, in the order of its arguments. A model that is not taken from it is
    in no DistributedDataParallel, and a loader gives every rank all of the data. Fabric's setup() is alike.
    Source: accelerate/accelerator.py, prepare.
    """
    call = event.call
    more = ("scheduler", "evaluation_mode")  # Fabric returns the one too; the other is for no training
    if call is None or call.open or any(map(call.get, more)) or any(map(_is_starred, call.node.args)):
        return
    statement = next((node for node in it.nodes if getattr(node, "value", None) is call.node), None)
    if isinstance(statement, ast.Expr):
        things = [it.thing(item) for given in call.args for item in list_values(given)]
        kinds = {each.kind for each in things if each and each.get("trainable") != Const("none")}
        if (
            not kinds.isdisjoint({"model", "loader"})
            and it.target.processes != 1
            and "fsdp" not in it.source.text.lower()
        ):
            message = "what this returns is thrown away: what is used afterwards is not prepared"
            yield RuleHit(event.place, message, _fix(call.node), Level.WARNING)
        return
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, (ast.Tuple, ast.List)) or any(map(_is_starred, target.elts)):
        return
    names, given = map(unparse, target.elts), list(map(unparse, call.node.args))
    taken = list(names)
    if len(given) > 1 and len(taken) != len(given):
        message = f"this returns {len(given)} things, and {len(taken)} names take them"
        yield RuleHit(event.place, message, _fix(call.node), Level.ERROR)
    elif taken != given and sorted(taken) == sorted(given):
        moved = [node for node, name, one in zip(call.node.args, given, taken, strict=True) if name != one]
        kinds = {it.kind(item) for node in moved for item in list_values(it.evaluate(node))}
        wrong = next(one for one, other in zip(taken, given, strict=True) if one != other)
        message = f"this returns what it is given in the same order, and `{wrong}` gets another of them"
        yield RuleHit(event.place, message, _fix(call.node), Level.ERROR if len(kinds) > 1 else Level.WARNING)


def _is_starred(node: ast.AST) -> bool:
    return isinstance(node, ast.Starred)


def _fix(call: ast.Call) -> str:
    return f"{', '.join(map(unparse, call.args))} = {unparse(call)}"
