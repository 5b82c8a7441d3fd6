"""Runs that were found on hosts, for people and for programs."""

import statistics
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from launcher.config.disconnect_options import START_TIMEOUT_S
from launcher.config.node_sets import fold_hosts, format_host_range
from launcher.rundir.end_state import describe_end, explain_stall
from launcher.runs.remote_run import NodeRun, RemoteRun
from launcher.text import align_rows, count_noun, format_memory, one_line, sanitize
from preflight.checks.message_text import round_duration, shorten

SCHEMA = "gpulaunch.runs/1"
_SPARE = ("BY", "RUNS ON", "STARTED", "HOSTS", "LOSS", "STEP")
"""Columns that a narrow terminal does without, the first one first."""
_NARROWEST_STATE = 24
_TITLES = ("RUN", "STATE", "STEP", "LOSS", "HOSTS", "RUNS ON", "BY", "STARTED")


def render_runs(
    runs: Sequence[RemoteRun], now: float, columns: int | None = None, *, answered: Collection[str] = ()
) -> Iterator[str]:
    """Yield the table, newest run last, and below it what needs a person's eye.

    `columns` are those of the terminal: where the table is wider, it has fewer columns. `answered` are hosts
    that have listed all that lives on them.
    """
    rows = [_TITLES, *(_row(run, now) for run in runs)]
    yield from align_rows(rows if columns is None else list(_fit_rows(rows, columns)))
    for run in runs:
        yield from _remarks(run)
        yield from _remarks_on_nodes(run, answered, now)


def _fit_rows(rows: Sequence[Sequence[str]], columns: int) -> Iterator[Sequence[str]]:
    """Yield the rows without what a narrow terminal has no place for: first columns that say nothing."""
    columns_by_title = {cells[0]: cells for cells in zip(*rows, strict=True)}
    widths = {title: max(map(len, cells)) + 2 for title, cells in columns_by_title.items()}
    widths["STATE"] = min(widths["STATE"], _NARROWEST_STATE + 2)
    silent = [title for title, cells in columns_by_title.items() if set(cells[1:]) == {"-"}]
    for title in dict.fromkeys([*silent, *_SPARE]):
        if sum(widths.values()) - 2 <= columns:
            break
        del widths[title]
    left = columns - sum(width for title, width in widths.items() if title != "STATE")
    for row in rows:
        shown = dict(zip(rows[0], row, strict=True))
        shown["STATE"] = shorten(shown["STATE"], max(left, _NARROWEST_STATE))
        yield [shown[title] for title in widths]


def run_line(run: RemoteRun, now: float) -> str:
    """Return one run as one line."""
    return "  ".join(word for word in _row(run, now) if word != "-")


def encode_runs(
    runs: Iterable[RemoteRun],
    errors: dict[str, str],
    strays: Mapping[str, Sequence[str]] | None = None,
    elsewhere: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return the runs as plain JSON types, schema gpulaunch.runs/1."""
    documents = [_encode_run(run) for run in runs]
    rejected_statements = [f"{run_id}: {words}" for run_id, each in (strays or {}).items() for words in each]
    others = {one_line(host, 100): list(run_ids) for host, run_ids in (elsewhere or {}).items()}
    about = {"unreachable": errors, "rejected_statements": rejected_statements, "other_hosts": others}
    return {"schema": SCHEMA, "runs": documents, **about}


def _row(run: RemoteRun, now: float) -> tuple[str, ...]:
    progress = run.progress
    step = "-" if progress.step is None else str(progress.step)
    if progress.step is not None and progress.steps is not None:
        step += f"/{progress.steps}"
    return tuple(
        one_line(word, 80)
        for word in (
            run.run_id,
            _state(run),
            step,
            "-" if progress.loss is None else f"{progress.loss:g}",
            _hosts(run),
            _hardware(run),
            run.record.started_by if run.record is not None else run.nodes[0].user,
            f"{round_duration(now - run.started)} ago",
        )
    )


def _hosts(run: RemoteRun) -> str:
    """Return the hosts that report it, and the number of others."""
    names = one_line(format_host_range(node.entry.name for node in run.nodes), 60)
    missing = run.total_nodes - len(run.nodes)
    return f"{names} and {missing} more" if missing > 0 else names


def _state(run: RemoteRun) -> str:
    condition = run.status
    if condition == "finished":
        known = len(run.nodes)
        return (
            "finished 0" if known >= run.total_nodes else f"finished 0 on {known} of {run.total_nodes} nodes"
        )
    if condition in ("failed", "stopped", "lost") and run.why:
        return one_line(describe_end(condition, run.why), 70)
    if condition == "waiting":
        return "waits for a restart"
    if condition == "running" and (run.unattended_s or 0.0) > 10.0:
        return f"running, alone for {round_duration(run.unattended_s or 0.0)}"
    return condition


def _hardware(run: RemoteRun) -> str:
    uuids = [uuid for node in run.nodes for uuid in node.fields["spec"].get("gpus") or ()]
    if not uuids:
        ranks = sum(int(node.fields["spec"].get("ranks") or 0) for node in run.nodes)
        return count_noun(ranks, "CPU rank") + _cpu_use(run)
    names = {
        slot.gpu_name: None
        for node in (run.record.plan.nodes if run.record is not None else ())
        for slot in node.ranks.slots
        if slot.gpu_name
    }
    use = [node.gpu_use[uuid] for node in run.nodes for uuid in uuids if uuid in node.gpu_use]
    words = f"{len(uuids)}x {'/'.join(names) or 'GPU'}"
    if use:
        words += f" {statistics.mean(percent for percent, _ in use):.0f}%"
        words += f" {format_memory(sum(mib for _, mib in use))}"
    return words


def _cpu_use(run: RemoteRun) -> str:
    """Return the mean CPU use of the ranks and their memory together, where it was measured just now."""
    ranks = [rank for node in run.nodes for rank in node.rank_usage.values()]
    cpu = [rank["cpu"] for rank in ranks if isinstance(rank.get("cpu"), int | float)]
    memory = [rank["rss_mib"] for rank in ranks if isinstance(rank.get("rss_mib"), int | float)]
    words = f" {statistics.mean(cpu):.0f}%" if cpu else ""
    return words + (f" {format_memory(sum(memory))}" if memory else "")


def _remarks(run: RemoteRun) -> Iterator[str]:
    if run.conflict:
        yield sanitize(f"{run.run_id}: {run.conflict}; --hosts HOST asks one of them only", keep_lines=False)
    if run.next_words:
        failed = f" has failed ({one_line(run.why, 120)}) and" if run.status == "waiting" else ""
        yield sanitize(f"{run.run_id}{failed}: {run.next_words}", keep_lines=False)
    for node in run.nodes:
        left = node.end.get("remaining_pids")
        if left:
            pids = ", ".join(str(pid) for pid in left)
            yield sanitize(f"{run.run_id}: on {node.entry.name} could not be ended: {pids}", keep_lines=False)
        if stall := node.fields.get("stall"):
            yield sanitize(f"{run.run_id}: {node.entry.name}: {explain_stall(stall)}", keep_lines=False)
        if node.status == "lost":
            name = node.entry.name
            words = f"{run.run_id}: {name}: {node.why}; gpulaunch clean-zombies {name} shows what is left"
            words += f", gpulaunch rm {run.run_id} takes it off this list" * run.is_over
            yield sanitize(words, keep_lines=False)


def _remarks_on_nodes(run: RemoteRun, answered: Collection[str], now: float) -> Iterator[str]:
    """Yield on which nodes something else has happened than on the others, as far as is known."""
    missing = tuple(run.missing)
    gone = tuple(name for name in missing if name in answered)
    if gone and run.status in ("finished", "failed", "stopped"):
        has = "has" if len(gone) == 1 else "have"
        words = f"{fold_hosts(gone)} {has} no record of it: it was not started or has been removed"
        yield sanitize(f"{run.run_id}: {words}", keep_lines=False)
    if run.status != "running":
        return
    unheard = tuple(name for name in missing if name not in answered)
    over = tuple(node.entry.name for node in run.nodes if node.status in ("failed", "stopped"))
    why = f" ({one_line(run.why, 120)})" if run.why else ""
    ends = [f"has ended on {fold_hosts(over)}{why}"] if over else []
    if gone and now - run.started > START_TIMEOUT_S:
        ends.append(f"does not run on {fold_hosts(gone)}")
    if ends:  # without a client, the others do not know
        words = f"it {' and '.join(ends)}; gpulaunch attach or stop ends the rest"
        yield sanitize(f"{run.run_id}: {words}", keep_lines=False)
    if unheard:
        count = run.total_nodes - len(run.nodes) - len(gone)
        words = f"{count} of its nodes not asked or not heard: {fold_hosts(unheard)}"
        yield sanitize(f"{run.run_id}: {words}", keep_lines=False)


def _encode_run(run: RemoteRun) -> dict[str, Any]:
    progress, missing = run.progress, run.missing
    return {
        "run_id": run.run_id,
        "job": run.job,
        "state": "unknown" if run.status == "finished" and missing else run.status,
        "why": one_line(run.why, 500),
        "step": progress.step,
        "steps": progress.steps,
        "loss": progress.loss
        if progress.loss is None or abs(progress.loss) < float("inf")
        else str(progress.loss),
        "next": _encode_next(run),
        "conflict": run.conflict,
        "started_by": None if run.record is None else run.record.started_by,
        "started": run.started,
        "ended": run.ended,
        "unattended_s": run.unattended_s,
        "world_size": run.spec.get("world_size"),
        "total_nodes": run.total_nodes,
        "nodes": [_encode_node(node) for node in run.nodes],
        "missing": missing,
    }


def _encode_next(run: RemoteRun) -> dict[str, Any] | None:
    """Return what follows a start that has failed, None where nothing was to."""
    decided = next((node.fields["next"] for node in run.nodes if node.fields.get("next")), None)
    if decided is None:
        return None
    names = ("state", "why", "run_id", "by")
    kept = any(node.fields.get("kept") for node in run.nodes)
    return {"pending": kept, **{name: one_line(str(decided.get(name) or ""), 300) for name in names}}


def _encode_node(node: NodeRun) -> dict[str, Any]:
    spec = node.fields["spec"]
    return {
        "host": node.entry.name,
        "node_rank": spec.get("node_rank"),
        "state": node.status,
        "user": node.user,
        "detached": bool(node.fields.get("detached")),
        "gpus": {uuid: node.gpu_use.get(uuid) for uuid in spec.get("gpus") or ()},
        "rank_usage": dict(node.rank_usage),
        "ranks": node.end.get("ranks") or {},
        "remaining_pids": node.end.get("remaining_pids") or [],
        "run_dir": node.state.get("run_dir"),
        "age_s": round(time.time() + node.clock_offset_s - float(node.state.get("started") or 0.0), 3),
    }
