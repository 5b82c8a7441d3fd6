"""A curve as SVG, made here: no script, no library, nothing fetched."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 240
LEFT, RIGHT, TOP, BOTTOM = 74, 16, 16, 34
MOST_POINTS = 1600
"""Points that are drawn: of a share of a longer series its lowest and highest, so that no peak is lost."""
_LOG_FROM = 50.0
_TICKS = 5


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line at a place of the x axis, with its number in the list of events."""

    x: float
    number: int
    title: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """What is drawn: the same number of places and values; values that are no numbers are shown as such."""

    title: str
    x_label: str
    xs: Sequence[float]
    ys: Sequence[float]
    marks: tuple[Mark, ...] = ()


def svg(curve: Curve) -> str:
    """Return the curve as an <svg> element."""
    good = [y for y in curve.ys if math.isfinite(y)]
    scale = Scale.of(curve.xs, good)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    label = escape(f"{curve.title}: {len(curve.ys)} values")
    parts = [f'<svg {size} role="img" aria-label="{label}">', *_grid(scale, curve.x_label)]
    parts += _marks(curve.marks, scale)
    parts += _line(curve.xs, curve.ys, scale)
    parts += _bad(curve.xs, curve.ys, scale)
    return "\n".join([*parts, "</svg>"])


@dataclass(frozen=True, slots=True)
class Scale:
    """Where values lie on the paper."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    logarithmic: bool

    @classmethod
    def of(cls, xs: Sequence[float], good: Sequence[float]) -> "Scale":
        """Return the scale that holds all values; logarithmic where they differ by orders of magnitude."""
        x_low, x_high = (min(xs), max(xs)) if xs else (0.0, 1.0)
        low, high = (min(good), max(good)) if good else (0.0, 1.0)
        logarithmic = low > 0 and high / low >= _LOG_FROM
        if low == high:
            spread = abs(low) * 0.1 or 1.0
            low, high = low - spread, high + spread
        return cls(x_low, x_high if x_high > x_low else x_low + 1.0, low, high, logarithmic)

    def x(self, value: float) -> float:
        """Return the place of an x on the paper."""
        return LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the place of a y on the paper."""
        low, high = self.y_low, self.y_high
        if self.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def y_ticks(self) -> list[float]:
        """Return round values of the y axis."""
        if not self.logarithmic:
            return ticks(self.y_low, self.y_high)
        first, last = math.ceil(math.log10(self.y_low)), math.floor(math.log10(self.y_high))
        powers = [10.0**power for power in range(first, last + 1)]
        return powers[:: max(1, len(powers) // _TICKS)] or [self.y_low, self.y_high]


def ticks(low: float, high: float) -> list[float]:
    """Return about five round values between two."""
    rough = (high - low) / _TICKS
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(magnitude * factor for factor in (1, 2, 2.5, 5, 10) if magnitude * factor >= rough)
    first = math.ceil(low / step)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]


def thinned(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
    """Return the points to draw: of each share of a long series the lowest and the highest, in order."""
    points = list(zip(xs, ys, strict=True))
    if len(points) <= MOST_POINTS:
        return points
    shares = MOST_POINTS // 2
    found: list[tuple[float, float]] = []
    for number in range(shares):
        share = points[number * len(points) // shares : (number + 1) * len(points) // shares]
        good = [point for point in share if math.isfinite(point[1])]
        if len(good) < len(share):
            found.append((share[0][0], math.nan))
        if good:
            ends = {min(good, key=lambda point: point[1]), max(good, key=lambda point: point[1])}
            found += sorted(ends)
    return found


def _grid(scale: Scale, x_label: str) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in scale.y_ticks():
        y = scale.y(value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        yield f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
    for value in ticks(scale.x_low, scale.x_high):
        x = scale.x(value)
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{value:.6g}</text>'
    yield f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
    words = escape(x_label) + (", logarithmic" if scale.logarithmic else "")
    yield f'<text class="tick" x="{right}" y="{HEIGHT - 4}" text-anchor="end">{words}</text>'


def _marks(marks: Sequence[Mark], scale: Scale) -> Iterator[str]:
    for mark in marks:
        x = scale.x(min(max(mark.x, scale.x_low), scale.x_high))
        kind = "mark bad" if mark.bad else "mark"
        yield (
            f'<g class="{kind}"><title>{escape(mark.title)}</title>'
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>'
            f'<text x="{x:.1f}" y="{TOP - 4}" text-anchor="middle">{mark.number}</text></g>'
        )


def _line(xs: Sequence[float], ys: Sequence[float], scale: Scale) -> Iterator[str]:
    """Yield the curve in pieces: what is no number breaks it."""
    piece: list[str] = []
    for x, y in [*thinned(xs, ys), (0.0, math.nan)]:
        if math.isfinite(y):
            piece.append(f"{scale.x(x):.1f},{scale.y(y):.1f}")
            continue
        if len(piece) > 1:
            yield f'<polyline class="curve" points="{" ".join(piece)}"/>'
        elif piece:
            cx, cy = piece[0].split(",")
            yield f'<circle class="dot" cx="{cx}" cy="{cy}" r="2.5"/>'
        piece = []


def _bad(xs: Sequence[float], ys: Sequence[float], scale: Scale) -> Iterator[str]:
    """Yield a red tick at the bottom for each place on the paper with a value that is NaN or infinite."""
    places = sorted({round(scale.x(x)) for x, y in zip(xs, ys, strict=True) if not math.isfinite(y)})
    bottom = HEIGHT - BOTTOM
    for place in places:
        yield f'<line class="nan" x1="{place}" y1="{bottom - 10}" x2="{place}" y2="{bottom}"/>'
