"""Parts of a model that are frozen behind DistributedDataParallel, which waits for their gradients."""

from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.rules.registry import Level, RuleHit
from preflight.script.values.constants import FALSE

REMEDY = "remedy of a wrapper"
FROZEN = "frozen behind the wrapper"
_MESSAGE = "this is frozen behind DistributedDataParallel, which waits for its gradients in each step"


def note_frozen_part(it: Interpreter, event: ScriptEvent) -> None:
    """Note a part of a wrapped model that is frozen, until it is so no more.

    Of a model that is frozen as a whole DistributedDataParallel waits for nothing.
    """
    for key in [key for key in it.notes if isinstance(key, tuple) and key[:2] == (FROZEN, event.ref)]:
        del it.notes[key]
    if event.values.get("value") != FALSE or it.tests or not event.ref:
        return
    keys = [key for key in it.notes if isinstance(key, tuple) and key[0] == REMEDY]
    for _, model, remedy in keys:
        if event.ref != model and event.ref in list_parts(it, model):
            wrap = it.notes[REMEDY, model, remedy][0]
            it.note((FROZEN, event.ref, remedy, wrap), event.place)


def hold_frozen_parts(it: Interpreter) -> None:
    """Keep a finding for each part that is frozen at a backward()."""
    for key in [key for key in it.notes if isinstance(key, tuple) and key[0] == FROZEN]:
        place, (remedy, wrap) = it.notes.pop(key)[0], key[2:]
        fix = f"freeze it before the model is wrapped, or {remedy}"
        it.held_back.setdefault(FROZEN, []).append(RuleHit(place, _MESSAGE, fix, Level.WARNING, (wrap,)))
