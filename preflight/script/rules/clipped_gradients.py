"""Rule P116: gradients are clipped while a scaler's factor is on them."""

import ast
from collections.abc import Iterator

from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.own_names import name_of, step_at
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, Ref, Seq, Unknown
from preflight.script.values.constants import FALSE, NONE, TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, list_values

_CLIPS = {
    "Lightning": "gradient_clip_val=..., or self.clip_gradients(...)",
    "Fabric": "fabric.clip_gradients(model, optimizer, ...)",
}


@rule("P116", "clip")
def clipping_scaled_gradients(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Gradients are clipped while they are still scaled.

    Clipping at 1.0 what is 65536 times too large leaves next to nothing of every gradient. Behind
    scaler.step(optimizer) it changes nothing: the step has used the gradients.
    Source: torch.amp's documentation on unscale_; accelerate's clip_grad_norm_.
    """
    held = event.values.get("models", NONE)
    models = [item for item in held.items if isinstance(item, Ref)] if isinstance(held, Seq) else []
    for model in models:
        accelerator = it.thing(it.attr(model, "accelerator"))
        if accelerator is not None:
            words = {as_text(item) for item in list_values(accelerator.get("mixed_precision"))}
            if any(each.get("unscaled", FALSE) == TRUE for each in _optimizers_of(it, model)):
                continue
            if not words <= {"no", "bf16", "fp8"} and accelerator.get("sharded") != TRUE:
                yield _clipped_by_torch(it, event, accelerator, words)
            continue
        if it.state.scaled and not _unscaled(it, model):
            yield _clipped_scaled(it, event)
    if not models and it.state.scaled and not _unscaled(it, None):
        yield _clipped_scaled(it, event)


def _clipped_by_torch(
    it: Interpreter, event: ScriptEvent, accelerator: HeapObject, words: set[str | None]
) -> RuleHit:
    """Return the hit of gradients that what prepared the model scales, in fp16 or where it is launched so."""
    who = as_text(accelerator.get("who", Const("accelerate"))) or ""
    name = name_of(it, "accelerator", it.frame) or "accelerator"
    called = get_last_name(event.call.node) if event.call else ""
    given = unparse(event.call.node).partition("(")[2] if event.call else "...)"
    does, fix = f"torch's {called} clips", f"{name}.clip_grad_norm_({given}"
    if "clip_grad" not in called:
        does, fix = "this changes", f"{name}.unscale_gradients() before it"
    fix = _CLIPS.get(who, fix)
    message = f"{does} gradients that {who}'s fp16 has scaled"
    if "fp16" in words:
        return RuleHit(event.place, message, fix, Level.WARNING)
    open_value = any(type(item) is Unknown for item in list_values(accelerator.get("requested")))
    return RuleHit(
        event.place, f"{message}, where it trains in fp16", fix, Level.INFO if open_value else Level.WARNING
    )


def _clipped_scaled(it: Interpreter, event: ScriptEvent) -> RuleHit:
    if late := _stepped_before(it, event):
        message = f"{late} has used the gradients before they are clipped: this changes nothing"
        return RuleHit(event.place, message, f"clip between unscale_() and {late}", Level.WARNING)
    unscale = "{}.unscale_({})".format(*step_at(it, event.place))
    message = f"gradients are clipped before {unscale}, so while they are scaled"
    level = Level.WARNING if it.notes.get("scaler") else Level.INFO  # off on these GPUs
    return RuleHit(event.place, message, f"{unscale} before it", level)


def _stepped_before(it: Interpreter, event: ScriptEvent) -> str:
    """Return the step that is between unscale_() of its optimizer and this, and none behind it, or ""."""
    calls = [call for call in it.list_nodes(ast.Call) if isinstance(call.func, ast.Attribute)]
    steps = [call for call in calls if get_last_name(call) == "step" and call.args]
    if not steps or any(call.lineno >= event.place.line for call in steps):
        return ""
    last = max(steps, key=lambda call: call.lineno)
    unscaled = [call for call in calls if get_last_name(call) == "unscale_" and call.lineno < last.lineno]
    own = [call for call in unscaled if call.args and unparse(call.args[0]) == unparse(last.args[0])]
    return unparse(last) if own else ""


def _unscaled(it: Interpreter, model: Ref | None) -> bool:
    """Whether an optimizer of the model may have been unscaled, or never meets a scaler."""
    return any(thing.get("unscaled", FALSE) != FALSE for thing in _optimizers_of(it, model))


def _optimizers_of(it: Interpreter, model: Ref | None) -> list[HeapObject]:
    """Return the optimizers that step a model or parts of it; where none is known, those of none, or all."""
    optimizers = [thing for thing in it.state.heap.values() if thing.kind == "optimizer"]
    parts = set(list_parts(it, model.id)) if model is not None else set()
    steps = ((thing, getattr(thing.get("models"), "items", ())) for thing in optimizers)
    mine = [
        thing for thing, models in steps if any(isinstance(item, Ref) and item.id in parts for item in models)
    ]
    if model is not None and not mine:
        mine = [thing for thing in optimizers if not getattr(thing.get("models"), "items", ())]
    return mine or optimizers  # where none is known, unscale_ itself ends what is scaled
