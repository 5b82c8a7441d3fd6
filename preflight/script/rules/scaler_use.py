"""Rule P119: a scaler that steps what it never scaled."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.values import TRUE, truth
from preflight.script.rules.certainty import doubts_of
from preflight.script.rules.registry import Level, RuleHit, rule

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter

_SCALES = re.compile(r"\.scale\s*[(,)\]]|scaler\w*\s*\.\s*scale\b|[\"']scale[\"']")
"""scale(loss) that is called, handed on, or looked up by its name."""
_STEPPED = "steps without a scaled loss"


@rule("P119", "scaler step", "end")
def step_of_a_scaler_that_scales_nothing(it: "Interpreter", event: ScriptEvent) -> Iterator[RuleHit]:
    """scaler.step(optimizer) with a GradScaler whose scale(loss) is never called.

    The scale is made by the first scale(), so the first step stops: "Attempted unscale_ but _scale is None.
    This may indicate your script did not use scaler.scale(loss or outputs) earlier in the iteration."
    Source: torch/amp/grad_scaler.py, _check_scale_growth_tracker.
    """
    if event.name == "scaler step":
        scaler = it.thing(event.ref)
        if scaler is not None and truth(scaler.get("enabled")) and scaler.get("touched") != TRUE:
            prefix = "perhaps " if doubts_of(it, event.place) else ""
            it.notes.setdefault(f"{prefix}{_STEPPED}", []).append(event.place)
        return
    sure, doubtful = it.notes.get(_STEPPED, []), it.notes.get(f"perhaps {_STEPPED}", [])
    texts = (source.text for source in it.sources.files()) if sure or doubtful else ()
    if not (sure or doubtful) or any("scaler" in text.lower() and _SCALES.search(text) for text in texts):
        return
    message = "this scaler steps an optimizer, and scale(loss) is never called"
    unread = it.sources.unread()
    if unread:
        message += ", unless a module that could not be read does it"
    for place in dict.fromkeys((*sure, *doubtful)):
        level = Level.ERROR if place in sure and not unread else Level.WARNING
        fix = "scaler.scale(loss).backward() before it, or optimizer.step() without a scaler"
        yield RuleHit(place, message, fix, level)
