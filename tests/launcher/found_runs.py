"""Answers of hosts about the runs on them."""

from dataclasses import replace
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.planning.run_record import RunRecord, build_run_record
from launcher.runs.merged_runs import MergedRuns, merge_node_runs
from launcher.runs.remote_run import RemoteRun
from tests.launcher.run_plans import plan, run_id

A, B = HostEntry("a", address="10.0.0.1"), HostEntry("b", address="10.0.0.2", port=2222, user="ana")
PLAN = plan((None,), (None, None))


def node_run(word: str = "r1", node_rank: int = 0, **fields: Any) -> dict[str, Any]:
    mine = replace(PLAN, run_id=run_id(word))
    record = {**build_run_record(mine, mine.nodes[node_rank], (A, B)), "at": 1000.0}
    spec = {"node_rank": node_rank, "nodes": 2, "ranks": 1, "first_rank": node_rank, "launch": record}
    state = {"phase": "running", "started": 1000.0 + node_rank, **fields.pop("state", {})}
    return {"run_id": run_id(word), "spec": spec, "state": state, "alive": True, **fields}


def over(word: str = "r1", node_rank: int = 0, ended: float = 2000.0, **end: Any) -> dict[str, Any]:
    whole = {"ranks": {"0": 0}, "why": "", "launcher_code": 0, "remaining_pids": [], **end}
    return node_run(word, node_rank, state={"phase": "ended", "exit": whole, "ended": ended}, alive=False)


def found(*answers: tuple[HostEntry, list[dict[str, Any]]]) -> tuple[RemoteRun, ...]:
    return source(*answers).runs


def source(*answers: tuple[HostEntry, list[dict[str, Any]]], known: RunRecord | None = None) -> MergedRuns:
    memory = {} if known is None else {known.plan.run_id: known}
    node_run = ((entry, {"runs": runs, "t": 5000.0, "user": "ana"}, 5000.0) for entry, runs in answers)
    return merge_node_runs(node_run, memory)


def launched_by(who: str, run: str, at: float) -> dict[str, Any]:
    """Return what a host tells of a run that somebody launched."""
    data = node_run(run, state={"started": at})
    data["spec"]["launch"] = {**data["spec"]["launch"], "started_by": who}
    data["spec"]["job"] = run.partition("-")[0]
    return data
