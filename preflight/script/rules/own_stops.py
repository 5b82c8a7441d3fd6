"""Rule R430: callbacks by which one rank leaves the training of a Trainer, and the others do not."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import BY_RANK, OTHER_RANKS, RANK_0
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_decisions import has_measured_condition
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import RankValue
from preflight.script.values.constants import FALSE, NONE

_AGREED = re.compile(r"should_\w+ *=[^\n]*(?:reduce|broadcast|gather)")
_FIX = "set it on every rank: broadcast what one decides, or decide by what all ranks have"


@rule("R430", "stop")
def end_of_the_training_on_one_rank(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A callback ends the training of a Trainer on one rank, and the others continue.

    Each rank reads control.should_training_stop, and should_stop of Lightning's Trainer, for itself: the
    others wait in the next step, or evaluation, until the time-out of the process group. So it is where
    rank 0 alone sets it, where it has a callback that the others lack, and where each rank asks its own
    clock, of which one may be past the limit a step before the others.
    Source: transformers/trainer.py, the loop over batches; lightning/pytorch/loops/fit_loop.py, done.
    """
    if it.target.processes == 1 or it.sources.mention(_AGREED):
        return
    value = event.values["value"]
    parted = {RANK_0, OTHER_RANKS} & set(it.contexts)
    alone = len(parted) == 1 or (isinstance(value, RankValue) and value.first is not None)
    if value in (FALSE, NONE) or not (
        alone or (not it.contexts.count(BY_RANK) and has_measured_condition(it))
    ):
        return
    does = "evaluates" if event.what == "should_evaluate" else "leaves the training"
    who = (
        "each rank by its own measure" if not alone else "rank 0 alone" if RANK_0 in it.contexts else "a rank"
    )
    message = f"{who} {does} by this, and the others wait for it in the next step"
    yield RuleHit(event.place, message, _FIX, Level.ERROR if alone and it.target.processes else Level.WARNING)
