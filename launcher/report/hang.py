"""Where ranks stand, for people and programs."""

from collections.abc import Iterator
from typing import Any

from launcher.report.text import clean, one_line
from preflight.diagnosis.standing import Hang

SCHEMA = "gpulaunch.stacks/1"
_FRAMES = 30


def hang_json(hang: Hang) -> dict[str, Any]:
    """Return it as plain JSON types."""
    return {
        "apart": list(hang.apart),
        "words": one_line(hang.words, 2000),
        "missing": list(hang.missing),
        "ranks": [
            {
                "rank": standing.rank,
                "host": standing.host,
                "kind": standing.kind,
                "place": one_line(standing.place, 500),
                "state": one_line(standing.state, 100),
                "stack": [one_line(frame.words, 300) for frame in standing.frames[:_FRAMES]],
            }
            for standing in hang.standings
        ],
    }


def hang_lines(hang: Hang) -> Iterator[str]:
    """Yield each rank's place and the calls that led there, innermost first; what stands apart comes last."""
    for standing in hang.standings:
        yield clean(f"rank {standing.rank} on {standing.host} {standing.place}", keep_lines=False)
        for frame in standing.frames[:_FRAMES]:
            yield clean(f"  {frame.words}", keep_lines=False)
    if hang.missing:
        yield f"not seen: rank {', '.join(str(rank) for rank in hang.missing)}"
    if hang.apart:
        yield clean(hang.words, keep_lines=False)
