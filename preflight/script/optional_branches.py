"""Faults of branches that the default arguments leave out, and an option of the script opens."""

from collections.abc import Callable
from dataclasses import replace

from preflight.facts.script import CodeLocation
from preflight.script.findings import LintFinding, list_places
from preflight.script.interpreter.events import RESUMES
from preflight.script.interpreter.switches import can_be_combined
from preflight.script.rules.certainty import LOWER, OF_ALL_RANKS
from preflight.script.rules.registry import Level
from preflight.script.target import RankTarget
from preflight.script.target_run import TargetRun

_MOST_SWITCHES = 8
_OF_RANKS = OF_ALL_RANKS | {f"R4{number:02}" for number in range(1, 15)}
"""Faults of what several ranks do; a script without ranks by default has none of them then."""
_OF_SCALERS = frozenset({"P116", "P119", "P128", "P129"})
"""Faults of what a scaler has scaled; an option that turns it on brings them with it."""


def find_behind_options(
    target: RankTarget,
    plain: TargetRun,
    read: Callable[[RankTarget], TargetRun],
    findings: Callable[[RankTarget, TargetRun], list[LintFinding]],
) -> list[LintFinding]:
    """Return the faults of branches that the default arguments leave out, with their condition.

    `plain` is the run with those; `read` makes another, of which `findings` gives the faults.

    Each is one level lower than in a branch that runs, unless the script trains with this option only: then
    a launch gives it. A fault of a scaler that it turns on, and of ranks that the script has with it only,
    is a warning at least. Nothing where the arguments are known, for what they leave out does not run.
    """
    if target.args is not None or not plain.complete:
        return []
    found: dict[tuple[str, CodeLocation], LintFinding] = {}

    def more_with(switches: tuple[str, ...]) -> list[LintFinding] | None:
        given = replace(target, switches=switches)
        reading = read(given)
        if len(switches) > 1 and plain.trains and not reading.trains:
            return None
        more = [
            item for item in findings(given, reading) if item.level is not Level.INFO and _is_new(item, plain)
        ]
        if reading.trains and not plain.trains:
            return more
        of_ranks = reading.grouped and not plain.grouped
        kept = _OF_SCALERS | _OF_RANKS if of_ranks else _OF_SCALERS
        resumed = all(
            RESUMES.search(flag.partition("=")[0].lstrip("-").replace("-", "_")) for flag in switches
        )
        return [_lowered(item, keep_warning=resumed or item.code in kept) for item in more]

    switches = plain.switches[:_MOST_SWITCHES]
    together = tuple(filter(can_be_combined, switches))
    more = more_with(together) if len(together) > 1 else None  # None: that shows nothing of each
    for flag in switches:
        if more is not None and flag in together and list_places(more) <= found.keys():
            continue  # most change nothing, and another has brought the rest
        for item in more_with((flag,)) or ():
            key = (item.code, item.place)
            found.setdefault(key, replace(item, message=f"{item.message}, with {flag}"))
    return list(found.values())


def _is_new(item: LintFinding, plain: TargetRun) -> bool:
    """Whether the default arguments leave a fault out, or all but a note of it."""
    known = plain.hits.get((item.code, item.place))
    return known is None or known.level is Level.INFO


def _lowered(item: LintFinding, *, keep_warning: bool) -> LintFinding:
    return item if keep_warning and item.level is Level.WARNING else replace(item, level=LOWER[item.level])
