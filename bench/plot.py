"""Line charts on logarithmic axes as SVG, for docs/."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_PANEL, _HEIGHT, _LEFT, _TOP, _PLOT_W, _PLOT_H = 320, 330, 52, 40, 240, 210
_COLOURS = ("#0b6e4f", "#c8553d", "#3d5a80", "#8d6a9f", "#b5838d", "#6b705c")


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its name and its points."""

    name: str
    points: list[tuple[float, float]]


def chart(panels: Mapping[str, Sequence[Series]], x_name: str) -> str:
    """Return one SVG with a panel for each title; colours follow the order of the series."""
    width = _PANEL * len(panels)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_HEIGHT}" '
            'font-family="sans-serif" font-size="11">'
        ),
        f'<rect width="{width}" height="{_HEIGHT}" fill="white"/>',
    ]
    for place, (title, series) in enumerate(panels.items()):
        parts += [
            f'<g transform="translate({place * _PANEL + _LEFT},{_TOP})">',
            *_panel(title, series, x_name),
        ]
        parts.append("</g>")
    parts += _legend(next(iter(panels.values())))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(title: str, series: Sequence[Series], x_name: str) -> list[str]:
    points = [point for each in series for point in each.points if point[1] > 0]
    xs, ys = _decades([x for x, _ in points]), _decades([y for _, y in points])
    parts = [f'<text x="{_PLOT_W / 2}" y="-14" text-anchor="middle" font-size="13">{escape(title)}</text>']
    for power in range(xs[0], xs[1] + 1):
        at = _place(10.0**power, xs, _PLOT_W)
        parts.append(f'<path d="M{at:.1f} 0V{_PLOT_H}" stroke="#ddd"/>')
        parts.append(f'<text x="{at:.1f}" y="{_PLOT_H + 15}" text-anchor="middle">{10**power:,}</text>')
    for power in range(ys[0], ys[1] + 1):
        at = _PLOT_H - _place(10.0**power, ys, _PLOT_H)
        parts.append(f'<path d="M0 {at:.1f}H{_PLOT_W}" stroke="#ddd"/>')
        parts.append(f'<text x="-6" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    parts.append(f'<text x="{_PLOT_W / 2}" y="{_PLOT_H + 32}" text-anchor="middle">{escape(x_name)}</text>')
    for number, each in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [
            (_place(x, xs, _PLOT_W), _PLOT_H - _place(y, ys, _PLOT_H))
            for x, y in sorted(each.points)
            if y > 0
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
    return parts


def _legend(series: Sequence[Series]) -> list[str]:
    parts = []
    for number, each in enumerate(series):
        x = _LEFT + 130 * number
        parts.append(
            f'<rect x="{x}" y="{_HEIGHT - 22}" width="14" height="4" fill="{_COLOURS[number % 6]}"/>'
        )
        parts.append(f'<text x="{x + 20}" y="{_HEIGHT - 16}">{escape(each.name)}</text>')
    return parts


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten that hold all values."""
    if not values:
        return 0, 1
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _place(value: float, decades: tuple[int, int], length: float) -> float:
    return length * (math.log10(value) - decades[0]) / (decades[1] - decades[0])
