"""Part of R406: learning rates that differ between ranks which train one model."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import BY_RANK, OTHER_RANKS, RANK_0
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.collectives import is_shared
from preflight.script.rules.own_measures import is_measured_by
from preflight.script.rules.own_names import find_call_words
from preflight.script.rules.registry import Level, RuleHit
from preflight.script.values import Ref
from preflight.script.values.operations import as_text

_SCHEDULED, _BY_RANK_0 = "all ranks step a scheduler", "rank 0 steps a scheduler"
_BY_EACH = "each rank steps a scheduler by its own number"
_SETS_RATE = re.compile(
    r"\[[\"']lr[\"']\] *=|\.update\(\{?[\"']?lr\b"
    r"|(?:broadcast|scatter)\w*\([^)\n]*(?:lr|rate|sched|opt|state|obj|list)"
)


def find_unlike_rates(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Note who steps a scheduler, and by what; yield in the end the steps that part the ranks."""
    if event.name == "schedule":
        prepared = isinstance(it.attr(event.values["optimizer"], "accelerator"), Ref)
        if prepared or is_shared(it, event):
            name = _SCHEDULED if RANK_0 not in it.contexts or OTHER_RANKS in it.contexts else _BY_RANK_0
            it.note(_BY_EACH if name == _SCHEDULED and _is_by_own_number(it, event) else name, event.place)
        return
    alone = () if it.notes.get(_SCHEDULED) else it.notes.get(_BY_RANK_0, ())[:1]
    each = dict.fromkeys(it.notes.get(_BY_EACH, ()))
    if not (alone or each) or it.sources.mention(_SETS_RATE):
        return
    for place in alone:
        message = "rank 0 alone changes its learning rate, and the weights of the ranks part"
        yield RuleHit(place, message, f"{find_call_words(it, place)} on every rank", Level.WARNING)
    for place in each:
        message = "each rank lowers its learning rate by what it measured of its own part of the data"
        fix = "reduce the number over all ranks first: torch.distributed.all_reduce(), accelerator.reduce()"
        yield RuleHit(place, message, fix, Level.WARNING)


def _is_by_own_number(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether ReduceLROnPlateau decides by what a rank measured of its own part of the data."""
    if event.call is None or BY_RANK in it.contexts or as_text(it.attr(event.ref, "kind")) != _PLATEAU:
        return False
    words = {word.arg: word.value for word in event.call.node.keywords}
    given = next(iter(event.call.node.args), words.get("metrics"))
    return given is not None and is_measured_by(it, given, None)


_PLATEAU = "ReduceLROnPlateau"
