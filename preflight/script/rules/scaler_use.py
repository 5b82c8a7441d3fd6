"""Rules P119, P128 and P129: which of scale(), step() and update() a loop with a scaler leaves out."""

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


_UPDATES = re.compile(
    r"(?<!bar)(?<!progress)(?<!tqdm)(?<!ema)(?<!meter)(?<!hash)(?<!metric)(?<!tracker)\.update\(\s*\)"
    r"|scal\w*(?:\[[^\]\n]*\])?\s*\.\s*update\b|[\"']update[\"']",
    re.IGNORECASE,
)
"""update() that is called of what may be a scaler, handed on, or looked up by its name."""
_STEPS = re.compile(
    r"scal\w*(?:\[[^\]\n]*\])?\s*\.\s*step\b|\.step\(\s*\w*(?:opt|solver|optim)|get_scale\(|\.unscale_?\("
)
_UNSCALES = "scaled loss, plain step"


@rule("P128", "scaler step", "end")
def scaler_never_updated(it: "Interpreter", event: ScriptEvent) -> Iterator[RuleHit]:
    """scaler.step(optimizer) in a loop, with a GradScaler whose update() is never called.

    The second step stops: "step() has already been called since the last update()."
    Source: torch/amp/grad_scaler.py; reproduced with torch 2.13.
    """
    if event.name == "scaler step":
        scaler = it.thing(event.ref)
        if scaler is None or scaler.get("touched") == TRUE or truth(scaler.get("enabled")) is not True:
            return
        if it.loop_depth:
            prefix = "perhaps " if doubts_of(it, event.place) else ""
            it.notes.setdefault(f"{prefix}steps without update", []).append(event.place)
        return
    sure, doubtful = (it.notes.get(f"{word}steps without update", []) for word in ("", "perhaps "))
    if not (sure or doubtful) or any(_UPDATES.search(source.text) for source in it.sources.files()):
        return
    unread = it.sources.unread()
    message = "this scaler steps an optimizer in a loop, and update() is never called"
    message += ", unless a module that could not be read does it" if unread else ""
    for place in dict.fromkeys((*sure, *doubtful)):
        level = Level.ERROR if place in sure and not unread else Level.WARNING
        yield RuleHit(place, message, "scaler.update() after it", level)


@rule("P129", "step", "end")
def plain_step_after_a_scaled_loss(it: "Interpreter", event: ScriptEvent) -> Iterator[RuleHit]:
    """optimizer.step() on gradients of a loss that a GradScaler has scaled.

    Nothing takes the scale out again: the gradients are 65536 times too large, and an overflow, of which
    scaler.step(optimizer) would leave out the step, makes the weights NaN.
    Source: torch.amp's documentation; torch/amp/grad_scaler.py.
    """
    if event.name == "step":
        if it.state.scaled and it.loop_depth and it.notes.get("scaler"):
            it.notes.setdefault(_UNSCALES, []).append(event.place)
        return
    places = it.notes.get(_UNSCALES, ())
    if not places or any(_STEPS.search(source.text) for source in it.sources.files()):
        return
    for place in dict.fromkeys(places):
        message = "this steps with gradients that the scaler's scale() has multiplied"
        fix = "scaler.step(optimizer); scaler.update()"
        yield RuleHit(place, message, fix, Level.WARNING)
