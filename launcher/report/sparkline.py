"""A series of numbers as one line of a terminal."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.report.html.ticks import format_tick
from launcher.rundir.layout import read_run_metrics

if TYPE_CHECKING:
    from launcher.rundir.log_metrics import Sample

BLOCKS = "▁▂▃▄▅▆▇█"
ASCII = "_.-=+*%#"
BAD = "x"
WIDTH = 60
_LARGE = 16 << 20  # at the end of a run a longer log would take too long to read; the report reads it


def draw_sparkline(
    values: Sequence[float],
    *,
    width: int = WIDTH,
    ascii_only: bool = False,
    span: tuple[float, float] | None = None,
) -> str:
    """Return the values as at most `width` bars, each the mean of its share; `span` is at least covered.

    A share with one value that is NaN or infinite is an x: that is what one looks for.
    """
    if not values or width < 1:
        return ""
    ramp = ASCII if ascii_only else BLOCKS
    count = min(width, len(values))
    edges = [place * len(values) // count for place in range(count + 1)]
    shares = [values[start:end] for start, end in pairwise(edges)]
    means = [sum(share) / len(share) if all(map(math.isfinite, share)) else math.nan for share in shares]
    good = [mean for mean in (*means, *(span or ())) if math.isfinite(mean)]
    low, high = (min(good), max(good)) if good else (0.0, 0.0)
    return "".join(_bar(mean, low, high, ramp) for mean in means)


def render_curves(directory: Path, *, ascii_only: bool = False) -> Iterator[str]:
    """Yield the loss and the gradient norm of a run whose logs are local, one line each."""
    metrics = read_run_metrics(directory, limit=_LARGE)
    if metrics is None:
        return
    for name, samples in (("loss", metrics.loss), ("grad norm", metrics.norm)):
        if len(samples) > 1:
            yield render_series(name, samples, ascii_only=ascii_only)


def render_series(name: str, samples: "Sequence[Sample]", *, ascii_only: bool = False) -> str:
    """Return `loss  2.31 ▇▅▃▁ 0.42 (120 values)`."""
    values = [sample.value for sample in samples]
    bars = draw_sparkline(values, ascii_only=ascii_only)
    bad = sum(not math.isfinite(value) for value in values)
    note = f"{len(values)} values" + (f", {bad} of them NaN or infinite" if bad else "")
    return f"{name:<9} {format_tick(values[0])} {bars} {format_tick(values[-1])} ({note})"


def _bar(mean: float, low: float, high: float, ramp: str) -> str:
    if not math.isfinite(mean):
        return BAD
    if high == low:
        return ramp[len(ramp) // 2]
    return ramp[min(len(ramp) - 1, int((mean - low) / (high - low) * len(ramp)))]
