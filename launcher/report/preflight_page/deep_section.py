"""What the deep checks measured, in a preflight's page: a strip for each GPU, and the pairs as matrices."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from launcher.report.html.escape import escape
from launcher.report.trend import Trend, scale_values
from launcher.text import count_noun, group_alike, spell_duration

_MOST_STRIPS = 64  # of one value; the slowest. The JSON in the page has all.
_MOST_MEMBERS = 64
_MOST_PAIRS = 64
_MOST_MATRICES = 24  # one is of the nodes, and each node with several GPUs has one of its own
_MOST_DOTS = 60
_WIDTH, _MARGIN, _HEIGHT = 240.0, 5.0, 16.0
_LINE, _PAD = 96.0, 2.0
_VERDICTS = {
    "critical": ("c", "C"),
    "warning": ("w", "W"),
    "ok": ("p", "P"),
    "unknown": ("u", "?"),
    "new": ("n", "-"),
}
Row = Mapping[str, Any]


def list_measured_hosts(document: Row) -> frozenset[str]:
    """Return the hosts on which the deep checks had a rank."""
    return frozenset(str(rank["host"]) for rank in document["ranks"])


def render_deep(document: Row) -> Iterator[str]:
    """Yield the section of a document of the schema gpulaunch.deep/1."""
    ranks = document["ranks"]
    yield "<h2>Deep checks</h2>"
    ended = f"; {escape(document['ended'])}" if document["ended"] else ""
    took = spell_duration(document["seconds"])
    yield f'<p class="soft">Measured on {count_noun(len(ranks), "rank")} in {took}{ended}.</p>'
    for label, rows in group_alike((each["label"], each) for each in document["values"]).items():
        yield from _strips(label, rows)
    matrices = sorted(document["matrices"], key=_count_slow, reverse=True)
    for matrix in matrices[:_MOST_MATRICES]:
        yield from _matrix(matrix)
    if len(matrices) > _MOST_MATRICES:
        left = len(matrices) - _MOST_MATRICES
        yield f'<p class="soft">and {left} more matrices, with no more slow pairs.</p>'
    if document["unmeasured"]:
        lines = (
            f"<li>not measured: {escape(_member(each))}: {escape(each['why'])}</li>"
            for each in document["unmeasured"]
        )
        yield f"<ul>{''.join(lines)}</ul>"


def _member(row: Row) -> str:
    if row.get("gpu") is not None:
        return f"{row['host']} gpu{row['gpu']}"
    return f"{row['host']} rank {row['rank']}" if "rank" in row else str(row["host"])


def _strips(label: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield one value of all ranks: the slowest first, on one scale, with a line at the median of all."""
    samples = [sample for row in rows for sample in (*row["samples"], row["value"])]
    low, high, middle = min(samples), max(samples), median(row["value"] for row in rows)
    unit = escape(rows[0]["unit"])
    caption = f"median {middle:.4g} {unit}, {len(rows)} measured; dots are samples"
    yield f"<h3>{escape(label)} <span>{caption}</span></h3>"
    yield '<table class="strips"><tbody>'
    shown = sorted(rows, key=lambda row: float(row["value"]))
    for row in shown[:_MOST_STRIPS]:
        css, letter = _VERDICTS.get(row["verdict"], _VERDICTS["new"])
        yield (
            f'<tr><th scope="row">{escape(_member(row))}</th><td>{_strip(row, low, high, middle)}</td>'
            f'<td class="number">{row["value"]:.4g} {unit}</td>'
            f'<td><i class="key {css}">{letter}</i></td>'
            f'<td class="soft">{escape(_compared(row))}{_trend_line(row)}</td></tr>'
        )
    yield "</tbody></table>"
    if len(shown) > _MOST_STRIPS:
        yield f'<p class="soft">and {len(shown) - _MOST_STRIPS} faster ones.</p>'


def _compared(row: Row) -> str:
    if not row["expected"]:
        return "nothing to compare with yet"
    return f"{row['value'] / row['expected']:.0%} of {row['expected_from']}"


def _strip(row: Row, low: float, high: float, middle: float) -> str:
    every = max(1, -(-len(row["samples"]) // _MOST_DOTS))
    dots = "".join(
        f'<circle class="dot" cx="{_x(sample, low, high):.1f}" cy="{_HEIGHT / 2:g}" r="3"/>'
        for sample in row["samples"][::every]
    )
    at, value = _x(middle, low, high), _x(row["value"], low, high)
    return (
        f'<svg class="strip" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img"'
        f' aria-label="{row["value"]:.4g}, median of all {middle:.4g}">'
        f'<line class="median" x1="{at:.1f}" y1="0" x2="{at:.1f}" y2="{_HEIGHT:g}"/>{dots}'
        f'<line class="value" x1="{value:.1f}" y1="2" x2="{value:.1f}" y2="{_HEIGHT - 2:g}"/></svg>'
    )


def _trend_line(row: Mapping[str, Any]) -> str:
    """Return the line of a value of the schema gpulaunch.deep/1, "" where it has no former ones.

    It goes from the least to the largest; the title has both, and the days of all points.
    """
    trend = Trend.of(row.get("former"), float(row["value"]))
    if trend is None:
        return ""
    step = (_LINE - 2 * _PAD) / max(1, len(trend.values) - 1)
    points = [
        (_PAD + at * step, _HEIGHT - _PAD - share * (_HEIGHT - 2 * _PAD))
        for at, share in enumerate(scale_values(trend.values))
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    days = (*trend.days, "now")
    listed = ", ".join(f"{day}: {value:.4g}" for day, value in zip(days, trend.values, strict=True))
    words = f"{min(trend.values):.4g} to {max(trend.values):.4g} since {trend.days[0]}"
    x, y = points[-1]
    return (
        f'<svg class="trend" viewBox="0 0 {_LINE:g} {_HEIGHT:g}" role="img" aria-label="{escape(words)}">'
        f"<title>{escape(listed)}</title>"
        f'<polyline points="{path}"/><circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="2"/></svg>'
    )


def _x(value: float, low: float, high: float) -> float:
    share = (value - low) / (high - low) if high > low else 0.5
    return _MARGIN + share * (_WIDTH - 2 * _MARGIN)


def _count_slow(matrix: Row) -> int:
    return sum(len(matrix[key]) for key in ("slow_members", "slow_links", "slow_unresolved"))


def _matrix(matrix: Row) -> Iterator[str]:
    """Yield the rates of pairs: of up to 64 members as a square, of more the slowest pairs."""
    members, reference = matrix["members"], matrix["reference_gbs"]
    against = f", against {reference:.3g} GB/s" if reference else ""
    caption = f"GB/s one way{against}; ! is slower than it should be"
    yield f"<h3>{escape(matrix['title'])} <span>{caption}</span></h3>"
    if len(members) > _MOST_MEMBERS:
        yield from _slowest(matrix)
        return
    rates = {frozenset(pair["between"]): pair for pair in matrix["pairs"]}
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in members)
    yield f'<div class="wide"><table class="reach pairs"><thead><tr><th></th>{head}</tr></thead><tbody>'
    for one in members:
        cells = (_cell(matrix, rates.get(frozenset((one, other)))) for other in members)
        yield f'<tr><th scope="row">{escape(one)}</th>{"".join(cells)}</tr>'
    yield "</tbody></table></div>"


def _slowest(matrix: Row) -> Iterator[str]:
    pairs = sorted(matrix["pairs"], key=lambda pair: float(pair["gbs"]))
    yield "<table class='reach pairs'><tbody>"
    for pair in pairs[:_MOST_PAIRS]:
        names = " and ".join(pair["between"])
        yield f'<tr><th scope="row">{escape(names)}</th>{_cell(matrix, pair)}</tr>'
    yield "</tbody></table>"
    if len(pairs) > _MOST_PAIRS:
        yield f'<p class="soft">and {len(pairs) - _MOST_PAIRS} faster pairs.</p>'


def _cell(matrix: Row, pair: Row | None) -> str:
    if pair is None:
        return "<td></td>"
    between = pair["between"]
    suspects = [*matrix["slow_links"], *matrix["slow_unresolved"]]
    slow = list(between) in map(list, suspects) or set(between) & set(matrix["slow_members"])
    latency = "" if pair["latency_us"] is None else f", {pair['latency_us']:.3g} us"
    title = f"{' and '.join(between)}: {pair['gbs']:.3g} GB/s{latency}"
    css, sign = ("w", "!") if slow else ("p", "")
    return f'<td class="{css}" title="{escape(title)}">{pair["gbs"]:.3g}{sign}</td>'
