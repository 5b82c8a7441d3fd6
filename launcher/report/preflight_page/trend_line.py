"""What a GPU reached over its latest measurements, as a small line beside its value."""

from collections.abc import Mapping
from typing import Any

from launcher.report.html.escape import text
from launcher.report.trend import Trend, shares

_WIDTH, _HEIGHT, _MARGIN = 96.0, 16.0, 2.0


def render_trend_line(row: Mapping[str, Any]) -> str:
    """Return the line of a value of the schema gpulaunch.deep/1, "" where it has no former ones.

    It goes from the least to the largest; the title has both, and the days of all points.
    """
    trend = Trend.of(row.get("former"), float(row["value"]))
    if trend is None:
        return ""
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(trend.values) - 1)
    points = [
        (_MARGIN + at * step, _HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN))
        for at, share in enumerate(shares(trend.values))
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    days = (*trend.days, "now")
    listed = ", ".join(f"{day}: {value:.4g}" for day, value in zip(days, trend.values, strict=True))
    words = f"{min(trend.values):.4g} to {max(trend.values):.4g} since {trend.days[0]}"
    x, y = points[-1]
    return (
        f'<svg class="trend" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{text(words)}">'
        f"<title>{text(listed)}</title>"
        f'<polyline points="{path}"/><circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="2"/></svg>'
    )
