"""What ranks execute, as text and as JSON."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from launcher.text import one_line, sanitize

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
    """Yield each rank's place and the calls that led to it, innermost first; outliers come last.

    Calls that a rank shares with one before it are reported once; those by which torch enters modules, never.
    """
    first_ranks: dict[tuple[StackFrame, ...], int] = {}
    for standing in hang.stacks:
        yield sanitize(f"rank {standing.rank} on {standing.host} {standing.location}", keep_lines=False)
        first = first_ranks.setdefault(standing.frames, standing.rank)
        if first != standing.rank and standing.frames:
            yield f"  by the same calls as rank {first}"
            continue
        for words in _folded(standing.frames):
            yield sanitize(f"  {words}", keep_lines=False)
    if hang.missing:
        yield f"not seen: rank {', '.join(str(rank) for rank in hang.missing)}"
    if hang.outliers:
        yield sanitize(hang.summary, keep_lines=False)


def _folded(frames: "Sequence[StackFrame]") -> Iterator[str]:
    calls = [frame.description for frame in frames if not _ENTERS.search(frame.function)]
    for words, group in groupby(calls[:_FRAMES]):
        times = len(list(group))
        yield words if times == 1 else f"{words}, {times} times"
