"""The charts of the HTML report: what the training printed, what its ranks used, and the events on both."""

import bisect
import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from launcher.report.html.escape import escape
from launcher.report.html.svg import HUES, Chart, EventMark, Series, choose_color, render_svg
from launcher.report.html.ticks import format_tick
from launcher.rundir.layout import LoggedEvent, RankLog, RunFiles, choose_metrics_log
from launcher.rundir.log_metrics import Sample, place_samples
from launcher.rundir.usage_series import RankSeries
from launcher.text import sanitize

MOST_EVENTS = 200
_USES = (
    # column, title, factor, at least up to, what is drawn of a share of a long run: peaks or means
    ("busy", "GPU use, %", 1.0, 100.0, fmean),
    ("memory_mib", "GPU memory, GiB", 1 / 1024, None, max),
    ("power_w", "GPU power, W", 1.0, None, fmean),
    ("cpu", "CPU use of a rank, % of one core", 1.0, 100.0, fmean),
    ("rss_mib", "host memory of a rank, GiB", 1 / 1024, None, max),
)


def render_charts(run: RunFiles) -> Iterator[str]:
    """Yield both sections."""
    yield "<h2>Training</h2>"
    log = choose_metrics_log(run.logs)
    if log is None:
        yield '<p class="soft">No log holds a loss, a gradient norm, a learning rate or a throughput.</p>'
    else:
        yield from _training(log, run.events)
    yield "<h2>Use of the hosts</h2>"
    missing = run.outcome.get("usage_missing")
    for host, why in missing.items() if isinstance(missing, dict) else ():
        yield f'<p class="soft">The GPUs of {escape(host)} could not be measured: {escape(why)}.</p>'
    if run.usage:
        yield from _use(run)
    else:
        yield '<p class="soft">GPU memory and use over time: nothing was recorded.</p>'


def _training(log: RankLog, events: Sequence[LoggedEvent]) -> Iterator[str]:
    who = f"rank {log.rank} on {log.host}" if log.rank is not None else f"the launcher on {log.host}"
    yield f'<p class="soft">As {escape(who)} printed it. Dashed lines are events, by their number below.</p>'
    unit, rates = log.metrics.throughput
    missing = []
    yield '<div class="charts">'
    for title, samples in (
        ("loss", log.metrics.loss),
        ("gradient norm", log.metrics.norm),
        ("learning rate", log.metrics.learning_rate),
        (f"throughput, {unit} per second", rates),
    ):
        if len(samples) < 2:
            reason = f"one value, {samples[0].value:.6g}" if samples else "not printed"
            missing.append(f"{title.partition(',')[0]}: {reason}")
        else:
            first, last = format_tick(samples[0].value), format_tick(samples[-1].value)
            chart = _training_chart(title, samples, log.name, events)
            yield _figure(title, f"{first} \N{RIGHTWARDS ARROW} {last}", chart)
    yield "</div>"
    if missing:
        yield f'<p class="soft">{escape("; ".join(missing))}.</p>'


def _training_chart(title: str, samples: Sequence[Sample], log: str, events: Sequence[LoggedEvent]) -> Chart:
    xs, axis = place_samples(samples)
    values = [sample.value for sample in samples]
    return Chart(
        title,
        (Series("", xs, values),),
        x_label=axis,
        marks=tuple(_marks(samples, xs, log, events)),
        smooth=title != "learning rate",
        from_zero=title.startswith(("learning rate", "throughput")),
    )


def _marks(
    samples: Sequence[Sample], xs: Sequence[float], log: str, events: Sequence[LoggedEvent]
) -> Iterator[EventMark]:
    """Yield where events lie: behind the last value that had come when they were reported."""
    offsets = [sample.offset for sample in samples]
    size: int | None = None
    for number, event in enumerate(events[:MOST_EVENTS], 1):
        if event.sizes is not None:
            size = max(size or 0, event.sizes[log]) if log in event.sizes else size
        if event.sizes is not None and size is not None:
            place = bisect.bisect_left(offsets, size)
            yield EventMark(xs[max(0, place - 1)], number, sanitize(event.text), event.bad)


def _use(run: RunFiles) -> Iterator[str]:
    began = run.events[0].at if run.events else min(series.at[0] for series in run.usage)
    marks = tuple(
        EventMark(event.at - began, number, sanitize(event.text), event.bad)
        for number, event in enumerate(run.events[:MOST_EVENTS], 1)
    )
    yield f'<p class="soft">Measured on the hosts every few seconds. {_whose(run.usage)}</p>'
    yield '<div class="charts">'
    for column, title, factor, y_high, of_share in _USES:
        measured = [series for series in run.usage if series.has(column)]
        if not measured:
            continue
        curves = tuple(_curve(series, column, factor, began) for series in measured)
        chart = Chart(
            title,
            curves,
            x_label="time since the start",
            marks=marks,
            over_time=True,
            x_span=(0.0, run.events[-1].at - began if run.events else 0.0),
            from_zero=True,
            y_high=y_high,
            bucket_reduce=of_share,
        )
        yield _figure(title, _keys(measured), chart, escaped=True)
    yield "</div>"


def _curve(series: RankSeries, column: str, factor: float, began: float) -> Series:
    """Return one rank's curve; what was not measured at a time is left out, for it is not a bad value."""
    points = [
        (at - began, value * factor)
        for at, value in zip(series.at, series.values[column], strict=True)
        if math.isfinite(value)
    ]
    return Series(
        sanitize(f"rank {series.rank} on {series.host}", keep_lines=False),
        [x for x, _ in points],
        [y for _, y in points],
    )


def _whose(usage: Sequence[RankSeries]) -> str:
    if len(usage) <= HUES:
        return "Memory and use of a GPU are the GPU's, of a rank with its workers."
    return f"{len(usage)} ranks, each a faint line; the bold one is their mean."


def _keys(usage: Sequence[RankSeries]) -> str:
    if len(usage) > HUES:
        return ""
    return " ".join(
        f'<span class="key"><i class="{choose_color(place, len(usage))}"></i>rank {series.rank}</span>'
        for place, series in enumerate(usage)
    )


def _figure(title: str, beside: str, chart: Chart, *, escaped: bool = False) -> str:
    words = beside if escaped else f"<span>{escape(beside)}</span>"
    return f"<figure><figcaption><b>{escape(title)}</b>{words}</figcaption>{render_svg(chart)}</figure>"
