"""What a GPU reached in former measurements, as a short line: its size, its direction, since when. Pure."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from preflight.frozen import dataclass

_LEVELS, _ASCII_LEVELS = "▁▂▃▄▅▆▇█", "_.-^"
_MOST = 24


@dataclass(frozen=True, slots=True)
class Trend:
    """Values over time, oldest first; the last one is of the run that is shown."""

    days: tuple[str, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, former: object, value: float) -> "Trend | None":
        """Return the trend of `former`, pairs of seconds since 1970 and a value; None without any.

        The document may come from a file: what is not such a pair is left out.
        """
        points = [_point(each) for each in former] if isinstance(former, list | tuple) else []
        kept = [point for point in points if point is not None][-_MOST:]
        if not kept:
            return None
        return cls(tuple(day for day, _ in kept), (*(value for _, value in kept), value))

    def line(self, *, ascii_only: bool = False) -> str:
        """Return "▃▅▆ 690 to 705 in 2 measurements since 2026-11-12"."""
        levels = _ASCII_LEVELS if ascii_only else _LEVELS
        low, high = min(self.values), max(self.values)
        marks = "".join(levels[round(share * (len(levels) - 1))] for share in scale_values(self.values))
        former = len(self.days)
        times = f"{former} measurement{'s' * (former != 1)} since {self.days[0]}"
        return f"{marks} {low:.4g} to {high:.4g}, {times}"


def scale_values(values: Sequence[float]) -> list[float]:
    """Return each value's place between the least (0) and the largest (1), 0.5 for equal ones."""
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 0.5 for value in values]


def _point(each: Any) -> tuple[str, float] | None:
    try:
        when, value = each
        day = dt.datetime.fromtimestamp(float(when)).astimezone().date().isoformat()
        number = float(value)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return (day, number) if abs(number) < 1e15 else None
