"""A run as one HTML file: nothing is fetched, nothing is executed, all that hosts and logs say is escaped."""

import bisect
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from string import Template
from typing import Any

from launcher.report.metrics import Sample, in_steps
from launcher.report.rundir import Event, RankLog, RunFiles
from launcher.report.svg import Curve, Mark, svg
from launcher.report.text import clean
from launcher.templates import templates_dir

TEMPLATE = "report.html.tmpl"
_MOST_EVENTS = 200


def html(run: RunFiles) -> str:
    """Return the report."""
    template = Template((templates_dir() / TEMPLATE).read_text(encoding="utf-8"))
    sections = (
        _head(run),
        _cause(run),
        _plots(run),
        _events(run),
        _ranks(run),
        _plan(run),
        _findings(run),
        _source(run),
    )
    body = "\n".join(part for section in sections for part in section)
    return template.substitute(title=text(f"gpulaunch run {run.run_id}"), body=body)


def text(value: object) -> str:
    """Return anything as text that is only text in HTML, without what steers terminals and bidi readers."""
    return escape(clean(str(value)))


def _head(run: RunFiles) -> Iterator[str]:
    outcome = run.outcome
    yield f"<h1>{text(run.run_id)}</h1>"
    if not outcome:
        yield (
            '<p class="verdict">No outcome is kept here: the run goes on, was left with --detach, or its'
            " client was killed.</p>"
        )
    else:
        fine = outcome.get("exit_code") == 0
        why = f": {text(outcome['why'])}" if outcome.get("why") else ""
        word = text(outcome.get("verdict", "?"))
        yield f'<p class="verdict {"good" if fine else "wrong"}">{word}{why}</p>'
    yield _pairs(_facts(run))


def _facts(run: RunFiles) -> Iterator[tuple[str, object]]:
    outcome, plan = run.outcome, run.plan
    if outcome:
        yield "exit code", outcome.get("exit_code", "?")
        yield "duration", duration(outcome.get("seconds"))
        if outcome.get("attempts", 1) != 1:
            yield "attempts", outcome["attempts"]
    if run.events:
        yield "first event", _clock(run.events[0].at)
    nodes = _list(plan.get("nodes"))
    if plan:
        yield "job", plan.get("job", "")
        yield "world size", plan.get("world_size", "?")
        yield "hosts", ", ".join(str(node.get("host", "?")) for node in nodes)
        yield "mixed precision", plan.get("mixed_precision", "?")
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
    yield f"<p>{text(cause.get('what', '?'))}</p>"
    if cause.get("where"):
        yield f'<p class="soft">at {text(cause["where"])} on {text(cause.get("host", "?"))}</p>'
    diagnosis = run.outcome.get("diagnosis")
    causes = _list(diagnosis.get("causes")) if isinstance(diagnosis, Mapping) else []
    for found in causes[:3]:
        yield f"<p><b>{text(found.get('code', ''))}</b> {text(found.get('cause', ''))}<br>"
        yield f"fix: {text(found.get('fix', ''))}</p>"
    lines = cause.get("last_lines")
    if isinstance(lines, list) and lines:
        yield f"<pre>{text(chr(10).join(map(str, lines)))}</pre>"


def _plots(run: RunFiles) -> Iterator[str]:
    yield "<h2>Training</h2>"
    log = most_telling(run.logs)
    if log is None:
        yield '<p class="soft">No log holds a loss, a gradient norm, a learning rate or a throughput.</p>'
    else:
        whose = f"rank {log.rank} on {log.host}" if log.rank is not None else f"the launcher on {log.host}"
        yield f'<p class="soft">As {text(whose)} printed it. Dashed lines are events, by their number.</p>'
        unit, rates = log.metrics.throughput
        for title, samples in (
            ("loss", log.metrics.loss),
            ("gradient norm", log.metrics.norm),
            ("learning rate", log.metrics.learning_rate),
            (f"throughput, {unit} per second", rates),
        ):
            yield from _plot(title, samples, log, run.events)
    yield '<p class="soft">GPU memory and use over time: this run did not record them.</p>'


def _plot(title: str, samples: list[Sample], log: RankLog, events: Sequence[Event]) -> Iterator[str]:
    if len(samples) < 2:
        what = title.partition(",")[0]
        told = f"one value, {samples[0].value:.6g}" if samples else "not printed"
        yield f'<p class="soft">{text(what)}: {told}.</p>'
        return
    xs, steps = in_steps(samples)
    values = [sample.value for sample in samples]
    yield f"<h3>{text(title)}</h3>"
    label = "step" if steps else "value in the log"
    yield svg(Curve(title, label, xs, values, tuple(_marks(samples, xs, log.name, events))))


def _marks(
    samples: Sequence[Sample], xs: Sequence[float], log: str, events: Sequence[Event]
) -> Iterator[Mark]:
    """Yield where events lie: behind the last value that had come when they were told."""
    offsets = [sample.offset for sample in samples]
    for number, event in enumerate(events[:_MOST_EVENTS], 1):
        size = event.sizes.get(log)
        if size is not None:
            place = bisect.bisect_left(offsets, size)
            yield Mark(xs[max(0, place - 1)], number, clean(event.text), event.bad)


def _events(run: RunFiles) -> Iterator[str]:
    yield "<h2>Events</h2>"
    if not run.events:
        yield '<p class="soft">None were recorded here.</p>'
        return
    rows = [
        (number, _clock(event.at), f"{event.at - run.events[0].at:+.1f} s", event.text)
        for number, event in enumerate(run.events[:_MOST_EVENTS], 1)
    ]
    yield _table(("", "at", "after", "what"), rows)
    if len(run.events) > _MOST_EVENTS:
        yield f'<p class="soft">{len(run.events) - _MOST_EVENTS} more.</p>'


def _ranks(run: RunFiles) -> Iterator[str]:
    ends = {end.get("rank"): end for end in _list(run.outcome.get("ranks"))}
    logs = {log.rank: log for log in run.logs if log.rank is not None}
    devices = dict(_devices(run.plan))
    ranks = sorted(rank for rank in {*ends, *logs, *devices} if isinstance(rank, int))
    if not ranks:
        return
    yield "<h2>Ranks</h2>"
    rows = []
    for rank in ranks:
        host, device = devices.get(rank, (logs[rank].host if rank in logs else "?", "?"))
        end = ends.get(rank, {})
        code = end.get("code") if rank in ends else None
        rows.append((rank, host, device, "not seen" if code is None else code, *_log_cells(logs.get(rank))))
    yield _table(("rank", "host", "device", "exit code", "last step", "last loss", "log"), rows)


def _log_cells(log: RankLog | None) -> tuple[str, str, str]:
    if log is None:
        return "", "", "none here"
    found = log.metrics
    step = "" if found.last_step is None else str(found.last_step)
    loss = f"{found.loss[-1].value:.6g}" if found.loss else ""
    return step, loss, f"{found.size} bytes"


def _devices(plan: Mapping[str, Any]) -> Iterator[tuple[int, tuple[str, str]]]:
    for node in _list(plan.get("nodes")):
        ranks = node.get("ranks")
        for slot in _list(ranks.get("slots")) if isinstance(ranks, Mapping) else []:
            local, first = slot.get("local_rank"), node.get("first_rank")
            if isinstance(local, int) and isinstance(first, int):
                gpu = f"GPU {slot.get('gpu_index')} {slot.get('gpu_name')} {slot.get('gpu_uuid')}"
                device = gpu if slot.get("gpu_uuid") else "CPU"
                yield first + local, (str(node.get("host", "?")), device)


def _plan(run: RunFiles) -> Iterator[str]:
    if not run.plan:
        return
    yield "<h2>Plan</h2>"
    changes = _list(run.plan.get("changes"))
    if changes:
        rows = [
            (each.get("what"), each.get("old") or "(none)", each.get("new") or "(dropped)", each.get("why"))
            for each in changes
        ]
        yield _table(("changed", "from", "to", "because"), rows)
    else:
        yield "<p>Nothing was changed.</p>"
    because = _list(run.plan.get("because"))
    yield _pairs((each.get("source", ""), each.get("text", "")) for each in because)
    for node in _list(run.plan.get("nodes")):
        yield f"<details><summary>{text(node.get('host', '?'))}: command</summary>"
        yield f"<pre>{text(node.get('command', ''))}</pre></details>"


def _findings(run: RunFiles) -> Iterator[str]:
    yield "<h2>Findings before the launch</h2>"
    found = _list(run.plan.get("findings"))
    if not found:
        yield '<p class="soft">None are kept with the plan.</p>'
        return
    rows = [
        (each.get("severity"), each.get("code"), ", ".join(map(str, each.get("hosts") or ())), _said(each))
        for each in found
    ]
    yield _table(("severity", "code", "hosts", "what"), rows)


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
    yield _pairs(
        [
            ("from", source.get("from", "")),
            ("commit", commit),
            ("branch", source.get("branch", "")),
            ("content", f"{source.get('files', '?')} files, SHA-256 {source.get('content_sha256', '?')}"),
        ]
    )
    if source.get("diff"):
        whole = "" if source.get("diff_is_whole") else " (its beginning)"
        diff = text(source["diff"])
        yield f"<details><summary>diff against the commit{whole}</summary><pre>{diff}</pre></details>"


def most_telling(logs: Iterable[RankLog]) -> RankLog | None:
    """Return the log that prints most of the training; of equals the lowest rank's."""
    best: RankLog | None = None
    count = 0
    for log in logs:
        found = log.metrics
        values = 4 * len(found.loss) + len(found.norm) + len(found.learning_rate) + len(found.throughput[1])
        if values > count:
            best, count = log, values
    return best


def duration(seconds: object) -> str:
    """Return seconds as a person says them."""
    if not isinstance(seconds, int | float):
        return "?"
    minutes, rest = divmod(float(seconds), 60)
    hours, minutes = divmod(int(minutes), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest:.0f} s" if minutes else f"{rest:.1f} s"


def _clock(at: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, ValueError, OSError):
        return "?"


def _pairs(pairs: Iterable[tuple[object, object]]) -> str:
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in pairs)
    return f"<dl>{rows}</dl>"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    top = "".join(f"<th>{text(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def _list(value: object) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; a damaged document has none."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []
