"""A run that is kept locally, as text for a terminal and as one document for programs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.config.node_sets import fold_hosts
from launcher.follow.phases import format_phases
from launcher.onhost.exit_status import signal_name
from launcher.report.deep import render_deep_report, render_unmeasured
from launcher.report.html.ticks import format_tick
from launcher.report.sparkline import draw_sparkline, render_series
from launcher.rundir.end_state import describe_end, summarize_ends
from launcher.rundir.layout import RunFiles, choose_metrics_log
from launcher.rundir.log_metrics import Sample
from launcher.rundir.usage_series import COLUMNS, RankSeries, describe_gpu_peak
from launcher.safe_json import read_mapping, read_mappings, read_number
from launcher.text import align_rows, format_memory, one_line, sanitize, spell_duration
from preflight.diagnosis.result import says_more

SCHEMA = "gpulaunch.report/1"
_EVENTS = 40
_USE_WIDTH = 24
_NAMES = {"grad_norm": "grad norm", "learning_rate": "lr"}


def render_summary(run: RunFiles, *, ascii_only: bool = False) -> Iterator[str]:
    """Yield how it ended, its curves, what its ranks used, and what happened."""
    yield from _head(run)
    yield from _curves(run, ascii_only=ascii_only)
    yield from _ranks(run, ascii_only=ascii_only)
    if run.deep:
        yield from render_deep_report(run.deep, ascii_only=ascii_only)
        yield from render_unmeasured(run.deep)
    if run.events:
        yield "events:"
    began = run.events[0].at if run.events else 0.0
    left = len(run.events) - _EVENTS
    for number, event in enumerate(run.events):
        if left > 0 and number == _EVENTS // 2:
            yield f"  ... {left} more ..."
        if left <= 0 or number < _EVENTS // 2 or number >= _EVENTS // 2 + left:
            mark = "!" if event.bad else " "
            yield f"  {'+' + spell_duration(event.at - began):>14} {mark} {one_line(event.text, 160)}"


def encode_summary(run: RunFiles) -> dict[str, Any]:
    """Return all that the report draws, schema gpulaunch.report/1; what is not a number is null."""
    log = choose_metrics_log(run.logs)
    return {
        "schema": SCHEMA,
        "run_id": sanitize(run.run_id, keep_lines=False),
        "outcome": run.outcome or None,
        "source": None if log is None else {"rank": log.rank, "host": log.host},
        "curves": {name: _points(samples) for name, samples in _series(run)},
        "usage": [_encode_usage(series) for series in run.usage],
        "deep": run.deep or None,
        "events": [{"at": each.at, "text": sanitize(each.text), "bad": each.bad} for each in run.events],
    }


def _head(run: RunFiles) -> Iterator[str]:
    outcome, plan = run.outcome, run.plan
    name = sanitize(run.run_id, keep_lines=False)
    if outcome:
        why = f": {one_line(str(outcome['why']), 160)}" if outcome.get("why") else ""
        code, took = outcome.get("exit_code", "?"), spell_duration(outcome.get("seconds"))
        yield f"{name}: {one_line(str(outcome.get('verdict', '?')))}{why} (exit code {code}) after {took}"
        if outcome.get("attempts", 1) != 1:
            yield f"attempts: {one_line(str(outcome['attempts']))}"
    elif run.ends:
        yield f"{name}: {one_line(describe_end(*summarize_ends(run.ends)))}"
    else:
        reasons = "it is live, ended when no client followed it, or could not be written"
        yield f"{name}: no outcome is kept locally: {reasons}; gpulaunch fetch brings how it ended"
    phases = read_mappings(outcome.get("phases"))
    if phases:
        words = format_phases((each.get("name", "?"), each.get("seconds")) for each in phases)
        yield sanitize(words, keep_lines=False)
    if plan:
        hosts = fold_hosts(str(node.get("host", "?")) for node in read_mappings(plan.get("nodes")))
        words = f"world size {plan.get('world_size', '?')} on {hosts}, mixed precision "
        yield one_line(f"{words}{plan.get('mixed_precision', '?')}", 400)
    cause = outcome.get("root_cause")
    if isinstance(cause, Mapping):
        yield f"root cause: {one_line(str(cause.get('summary', '?')), 400)}"
        if cause.get("location"):
            yield one_line(f"  at {cause['location']} on {cause.get('host', '?')}", 600)
        yield from _diagnosis(read_mapping(outcome.get("diagnosis")))


def _diagnosis(kept: Mapping[str, Any]) -> Iterator[str]:
    """Yield the first cause in the logs; nothing where an exception of the script's own says all."""
    causes = read_mappings(kept.get("causes"))
    if not causes or not says_more(str(causes[0].get("code")), str(causes[0].get("class"))):
        return
    first = causes[0]
    yield one_line(f"  diagnosis ({first.get('code', '?')}): {first.get('cause', '?')}", 400)
    yield one_line(f"  fix: {first.get('fix', '?')}", 400)


def _series(run: RunFiles) -> Iterator[tuple[str, Sequence[Sample]]]:
    log = choose_metrics_log(run.logs)
    if log is None:
        return
    metrics = log.metrics
    yield "loss", metrics.loss
    yield "grad_norm", metrics.norm
    yield "learning_rate", metrics.learning_rate
    for unit, samples in metrics.rates.items():
        yield f"{unit}_per_second", samples


def _curves(run: RunFiles, *, ascii_only: bool) -> Iterator[str]:
    for name, samples in _series(run):
        words = _NAMES.get(name, name.replace("_per_second", "/s"))
        if len(samples) > 1:
            yield render_series(words, samples, ascii_only=ascii_only)
        elif samples:
            yield f"{words:<9} {format_tick(samples[0].value)} (one value)"


def _ranks(run: RunFiles, *, ascii_only: bool) -> Iterator[str]:
    ends = run.ends_by_rank
    codes = {rank: end.get("code") for rank, end in ends.items()}
    hosts = {rank: end.get("host") for rank, end in ends.items()}
    used = {series.rank: series for series in run.usage}
    kept = {each.get("rank"): each for each in read_mappings(run.outcome.get("usage"))}
    hosts |= {rank: series.host for rank, series in used.items()}
    ranks = sorted({*codes, *used})
    if not ranks:
        return
    rows = [("RANK", "HOST", "EXIT", "PEAK MEMORY", "MEAN USE", "USE OVER TIME")]
    for rank in ranks:
        code = codes.get(rank)
        ended = signal_name(-code) if isinstance(code, int) and code < 0 else one_line(str(code), 10)
        ended = "?" if code is None else ended
        host = one_line(str(hosts.get(rank, "?")), 40)
        use = _use(used.get(rank), kept.get(rank) or {}, ascii_only=ascii_only)
        rows.append((str(rank), host, ended, *use))
    yield from align_rows(rows)


def _use(series: RankSeries | None, kept: Mapping[str, Any], *, ascii_only: bool) -> tuple[str, str, str]:
    """Return peak, mean and course. `kept`: of the outcome: what the kernel counted too."""
    on_gpu = any(kept.get(name) is not None for name in ("gpu_busy_mean", "gpu_memory_peak_mib"))
    on_gpu = on_gpu or (series is not None and (series.has("busy") or series.has("memory_mib")))
    if series is None and not kept:
        return "not measured", "", ""
    use, memory, of = ("busy", "memory_mib", "GPU") if on_gpu else ("cpu", "rss_mib", "core")
    columns = ("gpu_busy_mean", "gpu_memory_peak_mib") if on_gpu else ("cpu_mean", "rss_peak_mib")
    mean, peak = (read_number(kept.get(name)) for name in columns)
    if series is not None:
        mean = series.mean(use) if mean is None else mean
        peak = series.peak(memory) if peak is None else peak
    values = [value for value in series.values[use] if math.isfinite(value)] if series is not None else []
    samples = len(series.at) if series is not None else read_number(kept.get("samples")) or 0
    words = "not measured" if mean is None else f"{mean:.0f} % of {'its GPU' if of == 'GPU' else 'a core'}"
    return (
        "not measured"
        if peak is None
        else describe_gpu_peak(peak, samples)
        if on_gpu
        else format_memory(peak),
        words,
        draw_sparkline(values, width=_USE_WIDTH, ascii_only=ascii_only, span=(0.0, 100.0)),
    )


def _points(samples: Sequence[Sample]) -> dict[str, list[Any]]:
    return {
        "step": [sample.step for sample in samples],
        "epoch": [sample.epoch for sample in samples],
        "offset": [sample.offset for sample in samples],
        "value": [read_number(sample.value) for sample in samples],
    }


def _encode_usage(series: RankSeries) -> dict[str, Any]:
    columns = {name: [read_number(value) for value in series.values[name]] for name in COLUMNS}
    return {"rank": series.rank, "host": series.host, "at": series.at, **columns}
