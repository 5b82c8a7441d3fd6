"""One run of the interpreter: a script as one kind of rank reads it, with what the rules say of it."""

from collections.abc import Callable
from dataclasses import replace

from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import CPU, ONE_PROCESS, RANK_0, UNCALLED
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.program import ProgramReader
from preflight.script.interpreter.switches import list_closed_switches
from preflight.script.interpreter.unreached_code import RemainderReader
from preflight.script.libraries.call_table import LibraryModel
from preflight.script.rules.certainty import OF_ALL_RANKS, SEVERITY, UNREAD, apply_doubts
from preflight.script.rules.registry import RuleHit, list_rules
from preflight.script.source import Sources
from preflight.script.target import RankTarget
from preflight.script.values import Value

_MAX_RELATED = 8
_TRAININGS = frozenset({"step", "scaler step", "train", "scaled"})  # events of scripts that train
_SIGNS = _TRAININGS | {"backward", "unknown step", "sharded"}
"""Events of a training of which not all may be known: what a script trains with was reached."""


@dataclass(slots=True)
class TargetRun:
    """The hits of a run, and what precision each place asked for."""

    hits: dict[tuple[str, CodeLocation], RuleHit]
    requested: dict[CodeLocation, Value]
    parts: dict[CodeLocation, tuple[CodeLocation, ...]]
    complete: bool
    sources: Sources
    asked_gpu: bool = False  # it may differ on other GPUs
    trains: bool = False  # something steps an optimizer, or a Trainer trains
    reached: bool = False  # a training of which not all may be known
    grouped: bool = False  # ranks make a process group
    excesses: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()  # that are off, and may open a branch that was left out
    read_rest: Callable[[], list[str]] = list  # reads what may train and was not reached; returns what


def read_as(sources: Sources, text: str, path: str, target: RankTarget) -> TargetRun:
    """Read a script as one kind of rank does."""
    source = sources.add(path, text)
    reading = TargetRun({}, {}, {}, complete=True, sources=sources)

    def listen(it: Interpreter, event: ScriptEvent) -> None:
        if event.name in ("accelerator", "lightning", "arguments"):
            thing = it.thing(event.ref)
            if thing is not None:
                words = ("mixed_precision", "precision", "bf16", "fp16")
                spots = [
                    event.call.get_place(word) for word in words if event.call and word in event.call.kwargs
                ]
                reading.requested.setdefault((spots or [event.place])[0], thing.get("requested"))
                reading.parts.setdefault((spots or [event.place])[0], (*spots[1:], event.place))
        if it.contexts and _runs_elsewhere(it):
            return
        reading.trains = reading.trains or event.name in _TRAININGS
        reading.reached = reading.reached or event.name in _SIGNS
        if event.name == "process group" and UNCALLED not in it.contexts:
            reading.grouped = True
        first_rank = RANK_0 in it.contexts
        for code, judge in list_rules(event.name):
            if not (first_rank and code in OF_ALL_RANKS):
                for hit in judge(it, event):
                    _keep(reading.hits, code, apply_doubts(it, hit, code))

    it = ProgramReader(sources, target, LibraryModel(), listen)
    it.run(source)
    if not it.complete:
        it.contexts.append(UNREAD)
    listen(it, ScriptEvent("end", CodeLocation(path, 1)))
    reading.complete, reading.asked_gpu = it.complete, it.asked_gpu
    reading.excesses = tuple(it.excesses)
    reading.switches = list_closed_switches(it)

    def read_rest() -> list[str]:
        names = RemainderReader(it, source).read()
        reading.asked_gpu = it.asked_gpu
        return names

    if it.complete and not (reading.reached or target.switches):
        reading.read_rest = read_rest  # which keeps all that was read: of most scripts nothing is left
    return reading


def _runs_elsewhere(it: Interpreter) -> bool:
    """Whether the branch that is being read runs in no launch like the target."""
    if ONE_PROCESS in it.contexts and it.target.processes != 1:
        return True
    return CPU in it.contexts and it.target.capability is not None


def _keep(hits: dict[tuple[str, CodeLocation], RuleHit], code: str, hit: RuleHit) -> None:
    before = hits.get((code, hit.place))
    if before is None:
        hits[code, hit.place] = hit
        return
    related = tuple(dict.fromkeys((*before.related, *hit.related)))[:_MAX_RELATED]
    worse = hit if SEVERITY.index(hit.level) > SEVERITY.index(before.level) else before
    hits[code, hit.place] = worse if worse.related == related else replace(worse, related=related)
