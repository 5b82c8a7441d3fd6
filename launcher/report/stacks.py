"""What ranks execute, as text and as JSON."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from launcher.config.node_sets import fold_hosts
from launcher.text import group_alike, name_ranks, one_line, sanitize
from preflight import regex as re

if TYPE_CHECKING:
    from preflight.diagnosis.stack_analysis import Hang, StackFrame

SCHEMA = "gpulaunch.stacks/1"
_FRAMES = 30
_ENTERS = re.compile(r"(?:^|\.)(?:_wrapped)?_call_impl$")
"""How torch calls a module's forward: two calls between any two modules that say nothing of where it is."""


def encode_hang(hang: "Hang") -> dict[str, Any]:
    """Return it as plain JSON types."""
    return {
        "outliers": list(hang.outliers),
        "summary": one_line(hang.summary, 2000),
        "missing": list(hang.missing),
        "ranks": [
            {
                "rank": standing.rank,
                "host": standing.host,
                "kind": standing.kind,
                "location": one_line(standing.location, 500),
                "state": one_line(standing.state, 100),
                "stack": [one_line(frame.description, 300) for frame in standing.frames[:_FRAMES]],
            }
            for standing in hang.stacks
        ],
    }


def render_hang(hang: "Hang") -> Iterator[str]:
    """Yield each place and the calls that led to it, innermost first, with its ranks; then the outliers.

    The paths of files differ between hosts, so ranks are compared by what is shown. The calls by which torch
    enters modules are not.
    """
    alike = group_alike(((each.location, *_folded(each.frames)), each) for each in hang.stacks)
    for (location, *calls), ranks in alike.items():
        hosts = fold_hosts(standing.host for standing in ranks)
        each = "each of " * (len(ranks) > 1)
        numbers = name_ranks(standing.rank for standing in ranks)
        yield sanitize(f"{each}{numbers} on {hosts} {location}", keep_lines=False)
        for call in calls:
            yield sanitize(f"  {call}", keep_lines=False)
    if hang.missing:
        yield f"not seen: {name_ranks(hang.missing)}"
    if hang.outliers:
        yield sanitize(hang.summary, keep_lines=False)


def _folded(frames: "Sequence[StackFrame]") -> Iterator[str]:
    calls = [frame.description for frame in frames if not _ENTERS.search(frame.function)]
    for words, group in groupby(calls[:_FRAMES]):
        times = len(list(group))
        yield words if times == 1 else f"{words}, {times} times"
