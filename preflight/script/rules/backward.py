"""Rule P124: a backward() that goes around who scales the loss."""

import ast
import re
from collections.abc import Iterator

from preflight.script.interpreter.arguments import find_choosing_flag
from preflight.script.interpreter.branch_conditions import MAYBE
from preflight.script.interpreter.calls import MAY_HOLD, iterate_refs
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.autocast import DecidedBy
from preflight.script.rules.own_names import name_of
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, Ref
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, list_values

_PLAIN_BESIDE_SCALED = r"\.backward\(\w+[^\n]*\n\s*else:\n(?:[^\n]*\n)?[^\n]*\.backward\(\)\s*$"


@rule("P124", "backward")
def backward_around_accelerate(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """loss.backward() where accelerate's fp16 needs accelerator.backward(loss).

    The scaler never sees the loss: "No inf checks were recorded for this optimizer". Lightning wants
    self.manual_backward(loss), Fabric fabric.backward(loss).
    Source: accelerate/accelerator.py, backward.
    """
    if event.what != "raw" or "no_grad" in it.contexts:
        return
    if it.notes.get(DecidedBy("arguments")) and "training" in it.contexts:
        yield from _around_the_trainer(it, event)
        return
    if not it.loop_depth:
        return
    if event.call and event.call.args and it.notes.get("sharded"):
        return  # engine.backward(loss) of DeepSpeed
    owned = [thing for thing in it.state.heap.values() if isinstance(thing.get("accelerator"), Ref)]
    prepares = len(set(it.notes.get("prepared", ()))) > 1  # more than a loader of data
    if not (owned or prepares):
        return
    named = _named_things(it)
    for thing in owned if "training" in it.contexts else named:  # a Trainer's have no name in its methods
        if thing.kind != "optimizer" or not isinstance(thing.get("accelerator"), Ref):
            continue
        accelerator = it.thing(thing.get("accelerator"))
        precision = accelerator.get("mixed_precision") if accelerator else NONE
        if accelerator is None or accelerator.get("sharded") == TRUE:
            continue
        words = {as_text(item) for item in list_values(precision)}
        flag = find_choosing_flag(it, precision, "fp16")
        if words <= {"no", "bf16", "fp8"} and not flag:
            continue
        shards = "fsdp" in it.source.text.lower() or "deepspeed" in it.source.text.lower()
        level = Level.ERROR if words == {"fp16"} and not shards else Level.WARNING
        who = as_text(accelerator.get("who", Const("accelerate")))
        when = f"with {flag}=fp16" if flag else "under fp16"
        message = f"{who} does not see this backward(), and {when} its scaler then fails"
        fix = _own(it, event, as_text(accelerator.get("how")) or "accelerator.backward(loss)")
        yield RuleHit(event.place, message, fix, level)
        return
    above = "\n".join(it.source.lines[max(0, event.place.line - 5) : event.place.line])
    if not prepares or re.search(_PLAIN_BESIDE_SCALED, above):
        return
    preparing = [thing for thing in named if thing.kind == "accelerator" and thing.get("prepares") != NONE]
    precisions = (item for thing in preparing for item in list_values(thing.get("mixed_precision")))
    if any(as_text(item) not in ("no", "bf16", "fp8") for item in precisions):
        message = "accelerate does not see this backward(): no scaling under fp16, no DeepSpeed engine"
        yield RuleHit(event.place, message, _own(it, event, "accelerator.backward(loss)"), Level.WARNING)


def _around_the_trainer(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield a loss.backward() in a training_step() of the script's own, where fp16=True has a scaler."""
    text = it.source.text.lower()
    if MAYBE in it.contexts or event.call is None or event.call.args:
        return  # which branch runs is up to the Trainer; backward(loss) is of its accelerator
    if Const("fp16") in it.requested.values() and "deepspeed" not in text and "fsdp" not in text:
        message = "the Trainer does not see this backward(), and its fp16 scaler then fails"
        fix = _own(it, event, "self.accelerator.backward(loss)")
        yield RuleHit(event.place, message, fix, Level.ERROR)


def _own(it: Interpreter, event: ScriptEvent, how: str) -> str:
    """Return the call that is to take the place of a backward(), with what the script calls its things."""
    owner, _, call = how.partition(".")
    node = event.call.node if event.call is not None else None
    given: list[ast.AST] = [*node.args, *node.keywords] if node is not None else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        given.insert(0, node.func.value)
    words = ", ".join(map(unparse, given)) or "loss"
    return f"{name_of(it, owner, it.frame) or owner}.{call.replace('(loss', f'({words}')}"


def _named_things(it: Interpreter) -> list[HeapObject]:
    """Return the things that have a name, or are part of what has one, where the reading is.

    The Accelerator of a function that has returned says nothing of a loop in another function.
    """
    frames = it.state.frames.values()
    values = [value for names in frames for value in names.values() if type(value) in MAY_HOLD]
    found: dict[int, HeapObject] = {}
    for value in values:  # which grows
        for ref in iterate_refs(value):
            thing = it.thing(ref) if ref.id not in found else None
            if thing is not None:
                found[ref.id] = thing
                values += [item for item in thing.attrs.values() if type(item) in MAY_HOLD]
    return list(found.values())
