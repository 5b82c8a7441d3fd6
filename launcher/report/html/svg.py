"""Charts as SVG, made by this module: no script, no library, nothing fetched."""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import TypeAlias

from launcher.report.html.ticks import choose_log_ticks, choose_ticks, format_tick, time_label, time_ticks
from preflight.frozen import dataclass

WIDTH, HEIGHT = 560, 230
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 18, 36
_LOG_FROM = 50.0
_HEADROOM = 0.05
MOST_POINTS = 1600  # of a longer series a share's lowest and highest, so that no peak is lost
HUES = 8  # series with a colour of their own; more are drawn faintly, with their mean on top
SHARES, SHARES_OF_MANY = 280, 160  # points of a curve where each stands for a share of the series
Aggregate: TypeAlias = Callable[[Sequence[float]], float]
_SMOOTH_FROM = 80
_LABEL_WIDTH = 8.0


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


@dataclass(frozen=True, slots=True)
class EventMark:
    """A vertical line at a place of the x axis, with its number in the list of events."""

    x: float
    number: int
    title: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """The same number of places and values; values that are not numbers are shown as such."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn: one curve or several, and the events."""

    title: str
    series: tuple[Series, ...]
    x_label: str = "step"
    marks: tuple[EventMark, ...] = ()
    over_time: bool = False  # x is seconds since the start
    x_span: tuple[float, float] | None = None  # at least so much of the x axis is shown
    from_zero: bool = False
    y_high: float | None = None  # at least so much of the y axis is shown
    smooth: bool = False  # a noisy curve gets its running mean on top
    # What is drawn of a share of a long series, instead of its extremes.
    bucket_reduce: Aggregate | None = None


def render_svg(chart: Chart) -> str:
    """Return the chart as an <svg> element."""
    good = [y for series in chart.series for y in series.ys if math.isfinite(y)]
    xs = [*(chart.x_span or ()), *(x for series in chart.series for x in series.xs)]
    scale = Scale.of(xs, good, from_zero=chart.from_zero, y_high=chart.y_high)
    count = sum(len(series.ys) for series in chart.series)
    many = f" of {len(chart.series)} ranks" if len(chart.series) > 1 else ""
    label = escape(f"{chart.title}: {count} values{many}")
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">']
    parts += _grid(scale, chart)
    parts += _marks(chart.marks, scale)
    parts += _curves(chart, scale)
    for series in chart.series:
        parts += _bad(series.xs, series.ys, scale)
    return "\n".join([*parts, "</svg>"])


def choose_color(place: int, count: int) -> str:
    """Return the class of a series' colour."""
    return f"h{place % HUES}" if count <= HUES else "many"


def downsample_points(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
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


def calculate_running_mean(ys: Sequence[float]) -> list[float]:
    """Return the mean over a fortieth of the series around each value; what is not a number is left out."""
    half = max(1, len(ys) // 80)
    totals, counts = [0.0], [0]
    for y in ys:
        fine = math.isfinite(y)
        totals.append(totals[-1] + (y if fine else 0.0))
        counts.append(counts[-1] + fine)
    means = []
    for place, y in enumerate(ys):
        low, high = max(0, place - half), min(len(ys), place + half + 1)
        count = counts[high] - counts[low]
        means.append((totals[high] - totals[low]) / count if count and math.isfinite(y) else math.nan)
    return means


def bucket_points(
    xs: Sequence[float], ys: Sequence[float], shares: int, take: Aggregate
) -> list[tuple[float, float]]:
    """Return one point for each share of a long series: where it lies, what `take` makes of its values."""
    if len(xs) <= shares:
        return list(zip(xs, ys, strict=True))
    edges = [place * len(xs) // shares for place in range(shares + 1)]
    return [
        (xs[(low + high) // 2], take([y for y in ys[low:high] if math.isfinite(y)] or [math.nan]))
        for low, high in pairwise(edges)
    ]


def mean_over(series: Sequence[Series]) -> Series:
    """Return the mean of many series over the places that they cover."""
    points = [(x, y) for each in series for x, y in zip(each.xs, each.ys, strict=True) if math.isfinite(y)]
    if not points:
        return Series("mean", (), ())
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    shares = max(1, min(SHARES, max(len(each.xs) for each in series) // 2))
    sums = [(0.0, 0.0, 0)] * shares
    for x, y in points:
        place = min(shares - 1, int((x - low) / ((high - low) or 1.0) * shares))
        x_sum, y_sum, count = sums[place]
        sums[place] = (x_sum + x, y_sum + y, count + 1)
    means = [(x / count, y / count) for x, y, count in sums if count]
    return Series("mean", [x for x, _ in means], [y for _, y in means])


def _grid(scale: Scale, chart: Chart) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in scale.y_ticks():
        y = scale.y(value)
        yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        label = format_tick(value)
        yield f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    for value in scale.x_ticks(over_time=chart.over_time):
        x = scale.x(value)
        label = time_label(value) if chart.over_time else format_tick(value)
        yield f'<line class="axis" x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{label}</text>'
    yield f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>'
    words = escape(chart.x_label) + (", y logarithmic" if scale.logarithmic else "")
    yield f'<text class="tick" x="{right}" y="{HEIGHT - 3}" text-anchor="end">{words}</text>'


def _marks(marks: Sequence[EventMark], scale: Scale) -> Iterator[str]:
    """Yield the lines; numbers that would cover each other are written as one range."""
    ordered = sorted(marks, key=lambda mark: (mark.x, mark.number))
    placed = [(scale.x(min(max(mark.x, scale.x_low), scale.x_high)), mark) for mark in ordered]
    for x, mark in placed:
        kind = "mark bad" if mark.bad else "mark"
        yield (
            f'<g class="{kind}"><title>{mark.number}: {escape(mark.title)}</title>'
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/></g>'
        )
    group: list[tuple[float, EventMark]] = []
    for x, mark in placed:
        if group and x - group[-1][0] > _LABEL_WIDTH * (len(_range(group)) + 1):
            yield _number(group)
            group = []
        group.append((x, mark))
    if group:
        yield _number(group)


def _range(group: Sequence[tuple[float, EventMark]]) -> str:
    numbers = sorted(mark.number for _, mark in group)
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def _number(group: Sequence[tuple[float, EventMark]]) -> str:
    kind = "mark bad" if any(mark.bad for _, mark in group) else "mark"
    words = _range(group)
    width = len(words) * 6.0 / 2
    x = min(max((group[0][0] + group[-1][0]) / 2, LEFT + width), WIDTH - RIGHT - width)
    return f'<g class="{kind}"><text x="{x:.1f}" y="{TOP - 4}" text-anchor="middle">{words}</text></g>'


def _curves(chart: Chart, scale: Scale) -> Iterator[str]:
    count = len(chart.series)
    for place, series in enumerate(chart.series):
        kind = f"curve {choose_color(place, count)}"
        if chart.bucket_reduce is not None:
            points = bucket_points(
                series.xs, series.ys, SHARES if count <= HUES else SHARES_OF_MANY, chart.bucket_reduce
            )
            yield from _line(series.name, points, scale, kind)
            continue
        smooth = chart.smooth and len(series.ys) >= _SMOOTH_FROM
        points = downsample_points(series.xs, series.ys)
        yield from _line(series.name, points, scale, kind + (" raw" if smooth else ""))
        if smooth:
            yield from _line(
                series.name, downsample_points(series.xs, calculate_running_mean(series.ys)), scale, kind
            )
    if count > HUES:
        mean = mean_over(chart.series)
        yield from _line(mean.name, list(zip(mean.xs, mean.ys, strict=True)), scale, "curve mean")


def _line(name: str, points: Sequence[tuple[float, float]], scale: Scale, kind: str) -> Iterator[str]:
    """Yield the curve in pieces: what is not a number breaks it."""
    piece: list[str] = []
    title = f"<title>{escape(name)}</title>" if name else ""
    for x, y in [*points, (0.0, math.nan)]:
        if math.isfinite(y):
            piece.append(f"{scale.x(x):.1f},{scale.y(y):.1f}")
            continue
        if len(piece) > 1:
            yield f'<polyline class="{kind}" points="{" ".join(piece)}">{title}</polyline>'
        elif piece:
            cx, cy = piece[0].split(",")
            yield f'<circle class="{kind} dot" cx="{cx}" cy="{cy}" r="2.5">{title}</circle>'
        piece = []


def _bad(xs: Sequence[float], ys: Sequence[float], scale: Scale) -> Iterator[str]:
    """Yield a red tick at the bottom for each place on the paper with a value that is NaN or infinite."""
    places = sorted({round(scale.x(x)) for x, y in zip(xs, ys, strict=True) if not math.isfinite(y)})
    bottom = HEIGHT - BOTTOM
    for place in places:
        yield f'<line class="nan" x1="{place}" y1="{bottom - 10}" x2="{place}" y2="{bottom}"/>'
