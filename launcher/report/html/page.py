"""A run as one HTML file: nothing is fetched, nothing is executed, all that hosts and logs say is escaped."""

from collections.abc import Iterator, Mapping
from string import Template
from typing import Any

from launcher.config.config_search import templates_dir
from launcher.follow.phases import format_phases
from launcher.report.html.charts import MOST_EVENTS, render_charts
from launcher.report.html.escape import (
    escape,
    format_clock,
    render_pairs,
    render_reasons,
    render_table,
    render_tiles,
)
from launcher.rundir.layout import RankLog, RunFiles, choose_metrics_log
from launcher.rundir.usage_series import RankSeries, describe_gpu_peak, read_slots
from launcher.safe_json import read_mappings
from launcher.text import format_memory, spell_duration

TEMPLATE = "report.html.tmpl"


def render_page(run: RunFiles) -> str:
    """Return the report."""
    template = Template((templates_dir() / TEMPLATE).read_text(encoding="utf-8"))
    sections = (
        _head(run),
        _cause(run),
        render_charts(run),
        _events(run),
        _ranks(run),
        _plan(run),
        _findings(run),
        _source(run),
    )
    body = "\n".join(part for section in sections for part in section)
    return template.substitute(title=escape(f"gpulaunch run {run.run_id}"), body=body)


def _head(run: RunFiles) -> Iterator[str]:
    outcome = run.outcome
    yield f"<h1>{escape(run.run_id)}</h1>"
    if not outcome:
        yield (
            '<p class="verdict">No outcome is kept locally: the run is live, was left with --detach, or its'
            " client was killed.</p>"
        )
    else:
        fine = outcome.get("exit_code") == 0
        why = f": {escape(outcome['why'])}" if outcome.get("why") else ""
        word = escape(outcome.get("verdict", "?"))
        yield f'<p class="verdict {"good" if fine else "wrong"}">{word}{why}</p>'
    yield render_tiles(_tiles(run))
    yield render_pairs(_facts(run))


def _tiles(run: RunFiles) -> Iterator[tuple[str, object]]:
    """Yield what one looks for first."""
    outcome = run.outcome
    if outcome:
        yield "exit code", outcome.get("exit_code", "?")
        yield "duration", spell_duration(outcome.get("seconds"))
        if outcome.get("attempts", 1) != 1:
            yield "attempts", outcome["attempts"]
    if run.plan:
        yield "ranks", run.plan.get("world_size", "?")
        yield "hosts", len(read_mappings(run.plan.get("nodes")))
        yield "precision", run.plan.get("mixed_precision", "?")
    log = choose_metrics_log(run.logs)
    if log is not None and log.metrics.loss:
        yield "last loss", f"{log.metrics.loss[-1].value:.4g}"
    busy = [value for series in run.usage if (value := series.mean("busy")) is not None]
    memory = [value for series in run.usage if (value := series.peak("memory_mib")) is not None]
    if busy:
        yield "mean GPU use", f"{sum(busy) / len(busy):.0f} %"
    if memory:
        yield "peak GPU memory", describe_gpu_peak(max(memory), max(len(each.at) for each in run.usage))


def _facts(run: RunFiles) -> Iterator[tuple[str, object]]:
    outcome, plan = run.outcome, run.plan
    if run.events:
        yield "first event", format_clock(run.events[0].at)
    phases = read_mappings(outcome.get("phases"))
    if phases:
        yield "phases", format_phases((each.get("name", "?"), each.get("seconds")) for each in phases)
    if plan:
        yield "job", plan.get("job", "")
        yield "hosts", ", ".join(str(node.get("host", "?")) for node in read_mappings(plan.get("nodes")))
        yield "meets at", f"{plan.get('main_address', '?')}:{plan.get('main_port', '?')}"
    verified = outcome.get("verified")
    if isinstance(verified, Mapping):
        words = "as planned" if verified.get("world_ranks_devices") else "not verified"
        yield "world, ranks, devices", words
        yield "precision in the ranks", "as planned" if verified.get("mixed_precision") else "not verified"


def _cause(run: RunFiles) -> Iterator[str]:
    cause = run.outcome.get("root_cause")
    if not isinstance(cause, Mapping):
        return
    yield "<h2>Root cause</h2>"
    yield f"<p>{escape(cause.get('summary', '?'))}</p>"
    if cause.get("location"):
        yield f'<p class="soft">at {escape(cause["location"])} on {escape(cause.get("host", "?"))}</p>'
    diagnosis = run.outcome.get("diagnosis")
    causes = read_mappings(diagnosis.get("causes")) if isinstance(diagnosis, Mapping) else []
    for found in causes[:3]:
        yield f"<p><b>{escape(found.get('code', ''))}</b> {escape(found.get('cause', ''))}<br>"
        yield f"fix: {escape(found.get('fix', ''))}</p>"
    lines = cause.get("last_lines")
    if isinstance(lines, list) and lines:
        yield f"<pre>{escape(chr(10).join(map(str, lines)))}</pre>"


def _events(run: RunFiles) -> Iterator[str]:
    yield "<h2>Events</h2>"
    if not run.events:
        yield '<p class="soft">None were recorded.</p>'
        return
    rows = [
        (number, format_clock(event.at), f"{event.at - run.events[0].at:+.1f} s", event.text)
        for number, event in enumerate(run.events[:MOST_EVENTS], 1)
    ]
    yield render_table(("", "at", "after", "event"), rows)
    if len(run.events) > MOST_EVENTS:
        yield f'<p class="soft">{len(run.events) - MOST_EVENTS} more.</p>'


def _ranks(run: RunFiles) -> Iterator[str]:
    ends = run.ends_by_rank
    logs = {log.rank: log for log in run.logs if log.rank is not None}
    devices = dict(_devices(run.plan))
    used = {series.rank: series for series in run.usage}
    ranks = sorted({*ends, *logs, *devices})
    if not ranks:
        return
    yield "<h2>Ranks</h2>"
    rows = []
    for rank in ranks:
        host, device = devices.get(rank, (logs[rank].host if rank in logs else "?", "?"))
        code = ends.get(rank, {}).get("code")
        ended = "not seen" if code is None else code
        rows.append((rank, host, device, ended, *_use_cells(used.get(rank)), *_log_cells(logs.get(rank))))
    head = ("rank", "host", "device", "exit code", "peak memory", "mean use", "last step", "last loss", "log")
    yield render_table(head, rows)


def _use_cells(series: RankSeries | None) -> tuple[str, str]:
    """Return peak memory and mean use: of the GPU where it was measured, else of the processes."""
    if series is None:
        return "not measured", "not measured"
    busy, memory = series.mean("busy"), series.peak("memory_mib")
    if busy is None and memory is None:
        cpu = series.mean("cpu")
        return format_memory(series.peak("rss_mib")), "?" if cpu is None else f"{cpu:.0f} % of one core"
    return describe_gpu_peak(memory, len(series.at)), "?" if busy is None else f"{busy:.0f} %"


def _log_cells(log: RankLog | None) -> tuple[str, str, str]:
    if log is None:
        return "", "", "none"
    found = log.metrics
    step = "" if found.last_step is None else str(found.last_step)
    loss = f"{found.loss[-1].value:.6g}" if found.loss else ""
    return step, loss, f"{found.size} bytes"


def _devices(plan: Mapping[str, Any]) -> Iterator[tuple[int, tuple[str, str]]]:
    for rank, host, slot in read_slots(plan):
        gpu = f"GPU {slot.get('gpu_index')} {slot.get('gpu_name')} {slot.get('gpu_uuid')}"
        yield rank, (host, gpu if slot.get("gpu_uuid") else "CPU")


def _plan(run: RunFiles) -> Iterator[str]:
    if not run.plan:
        return
    yield "<h2>Plan</h2>"
    changes = read_mappings(run.plan.get("changes"))
    if changes:
        rows = [
            (each.get("field"), each.get("old") or "(none)", each.get("new") or "(dropped)", each.get("why"))
            for each in changes
        ]
        yield render_table(("changed", "from", "to", "because"), rows)
    else:
        yield "<p>Nothing was changed.</p>"
    because = read_mappings(run.plan.get("reasons"))
    yield render_reasons((each.get("text", ""), each.get("source", "")) for each in because)
    for node in read_mappings(run.plan.get("nodes")):
        yield f"<details><summary>{escape(node.get('host', '?'))}: command</summary>"
        yield f"<pre>{escape(node.get('command', ''))}</pre></details>"


def _findings(run: RunFiles) -> Iterator[str]:
    yield "<h2>Findings before the launch</h2>"
    found = read_mappings(run.plan.get("findings"))
    if not found:
        yield '<p class="soft">None are kept with the plan.</p>'
        return
    rows = [
        (each.get("severity"), each.get("code"), ", ".join(map(str, each.get("hosts") or ())), _said(each))
        for each in found
    ]
    yield render_table(("severity", "code", "hosts", "finding"), rows)


def _said(finding: Mapping[str, Any]) -> str:
    fix = f"; fix: {finding['fix']}" if finding.get("fix") else ""
    return f"{finding.get('subject', '')}: {finding.get('message', '')}{fix}".removeprefix(": ")


def _source(run: RunFiles) -> Iterator[str]:
    if not run.source:
        return
    source = run.source
    yield "<h2>Source</h2>"
    edits = " with edits" if source.get("dirty") else ""
    commit = f"{source['commit']}{edits}" if source.get("commit") else "no git"
    yield render_pairs(
        [
            ("from", source.get("from", "")),
            ("commit", commit),
            ("branch", source.get("branch", "")),
            ("content", f"{source.get('files', '?')} files, SHA-256 {source.get('content_sha256', '?')}"),
        ]
    )
    if source.get("diff"):
        whole = "" if source.get("diff_complete") else " (its first part)"
        diff = escape(source["diff"])
        yield f"<details><summary>diff against the commit{whole}</summary><pre>{diff}</pre></details>"
