"""Rules P119, P128, P129 and P134: what a loop with a scaler leaves out, or does twice."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import OWN_STEP, Loop, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.pytorch import list_trained_models
from preflight.script.rules.certainty import list_doubts
from preflight.script.rules.graph_syntax import find_names
from preflight.script.rules.method_calls import UNSEEN, group_calls, has_unknown_call, list_owners, note_call
from preflight.script.rules.own_names import step_at
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, Ref
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, as_text, list_values

_SCALES = r"\.scale\s*\(|(?<!self)\.scale\s*[,)\]]|scaler\w*\s*\.\s*scale\b|[\"']scale[\"']"
"""scale(loss) that is called, handed on, or looked up by its name; self.scale is a number of attention's."""
_STEPPED = "steps without a scaled loss"


@rule("P119", "scaler step", "scaled", "end")
def step_of_a_scaler_that_scales_nothing(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """scaler.step(optimizer) with a GradScaler whose scale(loss) is never called.

    The scale is made by the first scale(), so the first step stops: "Attempted unscale_ but _scale is None.
    This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
    Source: torch/amp/grad_scaler.py, _check_scale_growth_tracker.
    """
    scaler = it.thing(event.ref)
    if event.name == "scaled":
        note_call(it, "scale", scaler.place if scaler is not None else None, event.place)
    elif event.name == "scaler step" and scaler is not None:
        _note_step(it, scaler, event, _STEPPED)
    elif event.name == "end":
        message = "this scaler steps an optimizer, and scale(loss) is never called"
        advice = "{0}.scale(loss).backward() before it, or {1}.step() without a scaler"
        yield from _left_out(it, _STEPPED, "scale", _SCALES, message, advice)


def _note_step(it: Interpreter, scaler: HeapObject, event: ScriptEvent, note: str) -> None:
    """Note a step with a scaler that is on, perhaps by a setting that is not known; unread code had none."""
    enabled = as_bool(scaler.get("enabled"))
    if enabled is not False and scaler.get("touched") != TRUE:
        doubtful = list_doubts(it, event.place) or not enabled
        note_call(it, f"{'perhaps ' if doubtful else ''}{note}", scaler.place, event.place)


def _left_out(
    it: Interpreter, note: str, method: str, form: str, message: str, advice: str
) -> Iterator[RuleHit]:
    """Yield the steps of scalers of which a method is never called.

    Each is an error where no module that could not be read may call it.
    """
    called = list_owners(it, method) | {UNSEEN}
    sure, doubtful = (
        [place for scaler, place in group_calls(it, f"{prefix}{note}") if scaler not in called]
        for prefix in ("", "perhaps ")
    )
    if not (sure or doubtful) or has_unknown_call(it, method, form):
        return
    unread = it.sources.has_unread()
    message += ", unless a module that could not be read does it" if unread else ""
    for place in dict.fromkeys((*sure, *doubtful)):
        level = Level.ERROR if place in sure and not unread else Level.WARNING
        yield RuleHit(place, message, advice.format(*step_at(it, place)), level)


_UPDATES = (
    r"(?i)(?<!bar)(?<!progress)(?<!tqdm)(?<!ema)(?<!meter)(?<!hash)(?<!metric)(?<!tracker)\.update\(\s*\)"
    r"|scal\w*(?<!meter)(?<!metric)(?<!dict)(?<!scalars)(?:\[[^\]\n]*\])?\s*\.\s*update\b|[\"']update[\"']"
)
"""update() that is called of what may be a scaler, handed on, or looked up by its name."""
_STEPS = r"scal\w*(?:\[[^\]\n]*\])?\s*\.\s*step\b|\.step\(\s*\w*(?:opt|solver|optim)"
_COMPARED = r"\s*(?:[<>]|[!=]=)"
_TAKES_SCALE = (
    rf"[*/(,]=?\s*[\w.]*get_scale\(\)(?!\)*{_COMPARED})|get_scale\(\)\)*\s*[*/]"
    rf"|\b(\w+)\s*=\s*[\w.]*get_scale\(\)(?=(?s:.*)[*/(,=]\s*\1\b(?!{_COMPARED}))"
)
"""Scales that may be taken out of gradients: others are only compared, to see whether a step was left out."""
_TAKES_OUT = r"\.unscale_?\("
_ASKS_FINITE = re.compile(r"finite|nan|inf(?![a-z])|overflow|skip", re.IGNORECASE)
_UNSCALED = "unscaled gradients, plain step"
_LEFT = "steps without update"
_UNSCALES = "scaled loss, plain step"


@rule("P128", "scaler step", "scaler update", "end")
def scaler_never_updated(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """scaler.step(optimizer) in a loop, with a GradScaler whose update() is never called.

    The second step stops: "step() has already been called since the last update()."
    Source: torch/amp/grad_scaler.py; reproduced with torch 2.13.
    """
    scaler = it.thing(event.ref)
    if event.name == "scaler update" and scaler is not None:
        note_call(it, "update", scaler.place, event.place)
    elif event.name == "scaler step" and scaler is not None:
        if it.loop_depth:
            _note_step(it, scaler, event, _LEFT)
    elif event.name == "end":
        message = "this scaler steps an optimizer in a loop, and update() is never called"
        yield from _left_out(it, _LEFT, "update", _UPDATES, message, "{0}.update() after it")


@rule("P129", "step", "unknown step", "scaler step", "unscale", "backward", "end")
def plain_step_after_a_scaled_loss(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """optimizer.step() on gradients of a loss that a GradScaler has scaled.

    Nothing takes the scale out again: the gradients are 65536 times too large, and an overflow, of which
    scaler.step(optimizer) would leave out the step, makes the weights NaN.
    After unscale_() the scale is out, but nothing leaves out the step of an overflow. Behind
    scaler.step(optimizer) it is a second step with gradients that have been used.
    Source: torch.amp's documentation; torch/amp/grad_scaler.py.
    """
    if event.name in ("scaler step", "unscale"):
        for item in list_values(event.values["optimizer"]):
            known = it.thing(item) if isinstance(item, Ref) else None
            method = "step" if event.name == "scaler step" else "unscale"
            note_call(it, method, known.place if known is not None else None, event.place)
    elif event.name == "step":
        optimizer = it.thing(event.ref)
        yield from _beside_the_prepared(it, event)
        yield from _stepped_again(it, event)
        scales = it.state.scaled and it.loop_depth and it.notes.get("scaler") and not _scales_by_one(it)
        handed = (
            event.what == OWN_STEP and event.call and event.call.args
        )  # its own step() gets loss or scaler
        if optimizer is not None and scales and not handed:
            kept = optimizer.get("unscaled") != TRUE
            if kept or not any(map(_ASKS_FINITE.search, map(unparse, it.tests))):  # no overflow is found
                note_call(it, _UNSCALES if kept else _UNSCALED, optimizer.place, event.place)
    elif event.name == "unknown step":
        if it.state.scaled and it.loop_depth and it.notes.get("scaler"):
            note_call(it, _UNSCALES, UNSEEN, event.place)
    elif event.name == "backward":
        it.note("backward of no scaler", event.place)
        it.note("backward that scales", *([event.place] if event.what == "accelerator" else []))
    elif event.name == "end" and (group_calls(it, _UNSCALES) or group_calls(it, _UNSCALED)):
        yield from _stepped_plainly(it)


def _beside_the_prepared(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield a step of an optimizer that was not prepared, on gradients of a model that fp16 scales for."""
    optimizer = it.thing(event.ref)
    backward = it.notes.get("backward that scales", ())
    if optimizer is None or optimizer.get("accelerator") != NONE or not backward or not it.loop_depth:
        return
    for model in list_trained_models(it, Ref(event.ref or 0)):
        owner = it.thing(it.attr(model, "accelerator"))
        if owner is None or owner.get("sharded") == TRUE or owner.get("prepares_more") == TRUE:
            continue
        if owner.get("mixed_precision") == Const("fp16"):
            who = as_text(owner.get("who", Const("accelerate")))
            message = f"this optimizer is not prepared, and steps with gradients that {who}'s fp16 has scaled"
            fix = "prepare the optimizer with the model"
            yield RuleHit(event.place, message, fix, Level.ERROR, tuple(backward[:1]))
            return


def _stepped_again(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield a step behind the scaler's own of the same optimizer, in one block of statements."""
    call = event.call.node if event.call is not None else None
    if call is None or call.args or not isinstance(call.func, ast.Attribute):
        return
    if not it.notes.get("scaler"):
        return
    owner = unparse(call.func.value)
    for block in filter(None, (getattr(node, "body", None) for node in it.nodes)):
        rest = block if isinstance(block, list) else []
        at = next((i for i, each in enumerate(rest) if getattr(each, "value", None) is call), 0)
        for before in map(unparse, reversed(rest[:at])):
            if f"{owner}.zero_grad" in before:
                return
            if before.endswith(f".step({owner})"):
                message = f"{before} has made this step: a second one uses its gradients again"
                yield RuleHit(event.place, message, "remove it", Level.WARNING)
                return


def _scales_by_one(it: Interpreter) -> bool:
    """Whether a scaler only finds out what overflows."""
    scalers = (thing for thing in it.state.heap.values() if thing.kind == "scaler")
    return any(scaler.get("init_scale") == Const(1) for scaler in scalers)


def _stepped_plainly(it: Interpreter) -> Iterator[RuleHit]:
    """Yield the plain steps of optimizers that no scaler steps, where each is of a scaled loss.

    Where some loss is not scaled, which of the optimizers steps its gradients is not known.
    """
    stepped, unscaled = list_owners(it, "step"), list_owners(it, "unscale")
    if UNSEEN in stepped | unscaled or has_unknown_call(it, "step", f"{_TAKES_SCALE}|{_STEPS}"):
        return
    if has_unknown_call(it, "unscale", _TAKES_OUT):
        return
    advice = "{0}.step({1}); {0}.update()"
    overflows = (place for optimizer, place in group_calls(it, _UNSCALED) if optimizer not in stepped)
    for place in dict.fromkeys(overflows):
        message = "this steps after the scaler's unscale_(), and nothing leaves out the step of an overflow"
        yield RuleHit(place, message, advice.format(*step_at(it, place)), Level.WARNING)
    stepped |= unscaled
    if stepped and it.notes.get("backward of no scaler"):
        return
    plain = group_calls(it, _UNSCALES)
    if stepped and any(optimizer == UNSEEN for optimizer, _ in plain):
        return
    places = (place for optimizer, place in plain if optimizer not in stepped)
    for place in dict.fromkeys(places):
        message = "this steps with gradients that the scaler's scale() has multiplied"
        yield RuleHit(place, message, advice.format(*step_at(it, place)), Level.WARNING)


@rule("P134", "unscale", "scaler update")
def unscaled_twice(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """scaler.unscale_(optimizer) in each turn, and scaler.update() in some of them only.

    With accumulated gradients the second turn stops: "unscale_() has already been called on this optimizer
    since the last update()". It belongs beside scaler.step(optimizer), in the turns that step.
    Source: torch/amp/grad_scaler.py; reproduced with torch 2.13.
    """
    if event.name == "scaler update":
        for number, thing in it.state.heap.items():
            if thing.get("taken_out") != NONE:  # an optimizer of the script's own class too
                it.change(number, taken_out=NONE)
        return
    scaler, ref = it.thing(event.ref), event.values["optimizer"]
    if not isinstance(ref, Ref) or scaler is None:
        return
    before = it.attr(ref, "taken_out")
    loops = [loop for loop in it.loops if not (loop.number or loop.caught)]
    turn = next((Const(loop.began) for loop in reversed(loops) if not _goes_over(it, loop, event)), NONE)
    it.change(ref.id, taken_out=turn)
    updated = {owner for owner, _ in group_calls(it, "update")}
    asked = it.tests or (len(loops) > 1 and loops[-1].asked)  # around a loop over optimizers, too
    again = turn != NONE and any(item not in (NONE, turn) for item in list_values(before))
    if again and not asked and scaler.place in updated:
        level = Level.WARNING if scaler.get("touched") == TRUE else Level.ERROR
        message = "unscale_() runs in each turn of the loop, and update() in some only"
        advice = "{0}.unscale_({1}) beside {0}.step({1}), in the turns that step"
        fix = advice.format(*step_at(it, event.place))
        yield RuleHit(event.place, message, fix, level)


def _goes_over(it: Interpreter, loop: Loop, event: ScriptEvent) -> bool:
    """Whether a loop goes over the optimizers that an event is about, so that a turn of it makes no step."""
    given = event.call.node.args[:1] if event.call is not None else []
    nodes = [node for node in it.list_nodes(ast.For) if it.place(node) == loop.place]
    return any(not find_names(given).isdisjoint(find_names([node.target])) for node in nodes)
