"""The progress of a training by what it has printed last: step, loss, speed, and when it will be done.

Only the end of what came since the last look is read, and only on request: a rank that prints
without end costs next to nothing.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from preflight import regex as re
from preflight.frozen import dataclass

if TYPE_CHECKING:
    from launcher.rundir.log_metrics import Metrics, Sample

TAIL = 8192
_PATIENCE_S = 2.0  # how often ranks other than the one that reports are looked at
_BAR = re.compile(
    r"(?<![\d/.])(\d{1,15})/(\d{1,15}) \[(?:(?:\d+:)?\d+:\d+)<((?:(\d{1,9}):)?(\d\d):(\d\d)|\?)"
)
_STEP = re.compile(
    r"(?<![\w.])(?:global_?|train_?)?(?:step|iter(?:ation)?)s?['\"]?\s*[:=#]?\s*(\d{1,15})\s*(?:/|of)\s*(\d{1,15})(?!\d)",
    re.IGNORECASE,
)
_SEQUENCE = re.compile(rb"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]")
_PACE_OVER = 50
_SETTLED_S = 2.0  # of steps, before they show a pace
_JUMP = 10.0  # times the pace that follows
_FEWEST_IN_JUMP = 3


@dataclass(frozen=True, slots=True)
class ProgressValues:
    """The last of each that was printed; None: it was not."""

    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    norm: float | None = None
    learning_rate: float | None = None
    rate: tuple[float, str] | None = None  # tokens, samples, ... or else steps in a second
    eta_s: float | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing of a training was seen."""
        return self == ProgressValues()


class ProgressParser:
    """Reads what the lowest rank that reports a training prints."""

    def __init__(self) -> None:
        self._tails: dict[int, bytes] = {}
        self._source_rank: int | None = None
        self._looked = float("-inf")
        self._reading = ProgressValues()
        self._pace: deque[tuple[float, int]] = deque(maxlen=_PACE_OVER)

    def feed(self, rank: int, data: bytes) -> None:
        """Take what a rank has printed."""
        if self._source_rank is None or rank <= self._source_rank:
            self._tails[rank] = (self._tails.get(rank, b"") + data[-TAIL:])[-TAIL:]

    def read(self, now: float, bars: Sequence[str] = ()) -> ProgressValues:
        """Return its progress. `bars`: what the lowest rank is drawing."""
        for rank in self._due(now):
            whole, self._tails[rank] = _cut(self._tails[rank])
            found = read_tail(whole)
            if not found.empty:
                self._source_rank = rank
                self._reading = _newer(self._reading, found)
                self._tails = {low: kept for low, kept in self._tails.items() if low <= rank}
                break
        self._see_pace(now)
        return self._with_eta(now, bars)

    def _due(self, now: float) -> list[int]:
        ranks = sorted(rank for rank, tail in self._tails.items() if tail)
        if now - self._looked < _PATIENCE_S:
            return [rank for rank in ranks if rank in (0, self._source_rank)]
        self._looked = now
        return ranks

    def _see_pace(self, now: float) -> None:
        step = self._reading.step
        if step is None or (self._pace and self._pace[-1][1] == step):
            return
        if self._pace and step < self._pace[-1][1]:
            self._pace.clear()
        self._pace.append((now, step))

    def _with_eta(self, now: float, bars: Sequence[str]) -> ProgressValues:
        """Return the reading with when it ends: as its outermost bar says, or by the pace of its steps."""
        reading = self._reading
        found = [match for bar in bars if (match := _BAR.search(bar))]
        if found:
            largest = max(found, key=lambda match: int(match[2]))
            if int(largest[2]) >= (reading.steps or 0):
                reading = replace(reading, step=int(largest[1]), steps=int(largest[2]))
                reading = _with_pace_of(largest.string, reading)
            if found[0][3] != "?":
                hours, minutes, seconds = (int(each or 0) for each in found[0].group(4, 5, 6))
                return replace(reading, eta_s=hours * 3600.0 + minutes * 60.0 + seconds)
        if reading is not self._reading or reading.step is None or reading.steps is None or not self._pace:
            return reading
        (began, first), (last, latest) = _find_start_of_pace(self._pace), self._pace[-1]
        if latest <= first or last - began < _SETTLED_S:
            return reading
        left_s = (reading.steps - reading.step) * (last - began) / (latest - first) - (now - last)
        return replace(reading, eta_s=left_s if left_s > 0 else None)


def _find_start_of_pace(pace: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """Return the first (time, step) that counts: behind a resume, or what a log had before it was followed.

    Such steps come at once, each reading far ahead of the one before.
    """
    last, latest = pace[-1]
    for (before, step), (after, further) in reversed([*pairwise(pace)]):
        since, steps = last - after, latest - further
        is_jump = further - step >= _FEWEST_IN_JUMP and (further - step) * since > _JUMP * steps * (
            after - before
        )
        if is_jump and (steps or since >= _SETTLED_S):
            return after, further
    return pace[0]


def _cut(tail: bytes) -> tuple[bytes, bytes]:
    """Return what is whole, and the start of what is not: half a number is another number."""
    end = max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1
    return tail[:end], tail[end:]


def read_tail(tail: bytes) -> ProgressValues:
    """Return the last of each that the end of a log prints; it may start anywhere."""
    from launcher.rundir.log_metrics import collect_metrics  # noqa: PLC0415 - its patterns take long; no rank has printed yet

    lines = [line for line in re.split(rb"[\r\n]", _SEQUENCE.sub(b"", tail)) if line]
    metrics = collect_metrics((0, line) for line in lines)
    step, steps, line = _last_step(lines)
    step = metrics.last_step if step is None else step
    read = ProgressValues(
        step, steps, _last(metrics.loss), _last(metrics.norm), _last(metrics.learning_rate), _rate(metrics)
    )
    return _with_pace_of(line, read) if line else read


def _last_step(lines: Sequence[bytes]) -> tuple[int | None, int | None, str]:
    """Return the last step with a total, and its line; of several bars the one with more to do."""
    found: tuple[int | None, int | None, str] = (None, None, "")
    for pattern in (_BAR, _STEP):
        most = 0
        for line in reversed(lines):
            match = pattern.search(line.decode("utf-8", "replace"))
            if match and int(match[2]) > max(most, found[1] or 0):
                most = int(match[2])
                found = int(match[1]), most, match.string
    return found


def _with_pace_of(bar: str, reading: ProgressValues) -> ProgressValues:
    """Return the reading with the steps per second of this bar, where nothing better is printed."""
    from launcher.rundir.log_metrics import collect_metrics  # noqa: PLC0415 - as above

    rate = _rate(collect_metrics([(0, bar.encode())]))
    better = reading.rate is not None and reading.rate[1] != "steps"
    return reading if better or rate is None else replace(reading, rate=rate)


def _rate(metrics: "Metrics") -> tuple[float, str] | None:
    unit, samples = metrics.throughput
    return (samples[-1].value, unit) if samples else None


def _last(samples: "Sequence[Sample]") -> float | None:
    return samples[-1].value if samples else None


def _newer(old: ProgressValues, new: ProgressValues) -> ProgressValues:
    """Return the new reading; what it does not hold is as before."""
    if new.steps is not None and new.steps < (old.steps or 0):  # a bar of epochs, or of an evaluation
        own_rate = None if new.rate is None or new.rate[1] == "steps" else new.rate
        new = replace(new, step=old.step, steps=old.steps, rate=own_rate)
    rate = new.rate
    if old.rate is not None and (rate is None or (rate[1] == "steps" and old.rate[1] != "steps")):
        rate = old.rate
    names = ("step", "steps", "loss", "norm", "learning_rate")
    kept = {name: getattr(old, name) for name in names if getattr(new, name) is None}
    return replace(new, **kept, rate=rate)
