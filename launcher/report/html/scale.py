"""Where values lie on the paper of a chart."""

import math
from collections.abc import Sequence

from launcher.report.html.ticks import choose_log_ticks, choose_ticks, time_ticks
from preflight.frozen import dataclass

WIDTH, HEIGHT = 560, 230
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 18, 36
_LOG_FROM = 50.0
_HEADROOM = 0.05


@dataclass(frozen=True, slots=True)
class Scale:
    """The ends of both axes."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    logarithmic: bool

    @classmethod
    def of(
        cls,
        xs: Sequence[float],
        good: Sequence[float],
        *,
        from_zero: bool = False,
        y_high: float | None = None,
    ) -> "Scale":
        """Return the scale that holds all values; logarithmic where they differ by orders of magnitude."""
        x_low, x_high = (min(xs), max(xs)) if xs else (0.0, 1.0)
        x_high = x_high if x_high > x_low else x_low + 1.0
        low, high = (min(good), max(good)) if good else (0.0, 1.0)
        if from_zero:
            top = max(high * (1 + _HEADROOM), y_high or 0.0)
            return cls(x_low, x_high, min(0.0, low), top or 1.0, logarithmic=False)
        if low > 0 and high / low >= _LOG_FROM:
            return cls(x_low, x_high, low, high, logarithmic=True)
        spread = (high - low) * _HEADROOM or abs(low) * 0.1 or 1.0
        return cls(x_low, x_high, low - spread, high + spread, logarithmic=False)

    def x(self, value: float) -> float:
        """Return the place of an x on the paper."""
        return LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the place of a y on the paper."""
        low, high = self.y_low, self.y_high
        if self.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def x_ticks(self, *, over_time: bool) -> list[float]:
        """Return round values of the x axis."""
        return time_ticks(self.x_low, self.x_high) if over_time else choose_ticks(self.x_low, self.x_high)

    def y_ticks(self) -> list[float]:
        """Return round values of the y axis."""
        if self.logarithmic:
            return choose_log_ticks(self.y_low, self.y_high)
        return choose_ticks(self.y_low, self.y_high)
