"""The shape of what hosts report of runs, checked where it comes in: an odd host affects no other."""

import types
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.rundir.document_shape import build_shape, find_misfit
from launcher.rundir.run_id import is_run_id

_MOST_DIGITS = 9
_LARGEST = 1 << 62


_SPEC = build_shape(
    node_rank=int,
    nodes=int,
    ranks=int,
    first_rank=int,
    grace_s=float,
    world_size=int,
    job=str,
    gpus=tuple[str, ...],
    slurm_job=str,
)
_EXIT = build_shape(
    ranks=dict[str, int | None],
    why=str,
    cause=str,
    requested=bool,
    since=float,
    launcher_code=int,
    remaining_pids=tuple[int, ...],
    port_free=bool,
)
_STATE = build_shape(phase=str, run_dir=str, started=float, ended=float, exit=_EXIT)
_STALL = build_shape({"pid": int, "silent_s": float, "stopped": bool})
_RUN = build_shape(
    {"run_id": str, "spec": _SPEC},
    state=_STATE,
    client_age_s=float,
    tail=str,
    next=build_shape(state=str, why=str, run_id=str, by=str),
    kept=bool,
    stall=_STALL,
)
_ABOUT = build_shape(
    t=float,
    digest=types.GenericAlias(dict, (str, build_shape({"lines": int, "last": str, "said": dict[str, int]}))),
    gpu_use=dict[str, tuple[float, float]],
    stall=_STALL,
    host=str,
    other_hosts=dict[str, tuple[str, ...]],
)
_ANSWER = build_shape(state=_STATE, sizes=dict[str, int], t=float, stall=_STALL)
_LOG = build_shape({"log": str, "offset": int}, t=float)


def validate_answer(answer: object) -> str:
    """Return what is wrong with the first thing that a supervisor says of one run, "" where it fits."""
    wrong = find_misfit(_ANSWER, answer)
    if wrong or not isinstance(answer, dict) or not answer.get("state"):
        return wrong
    return validate_state(answer["state"])


def validate_frame(header: Mapping[str, Any]) -> str:
    """Return what is wrong with a later frame of a supervisor, "" where it fits."""
    if "log" not in header:
        return find_misfit(_ABOUT, header) or _not_a_rank(header.get("digest") or {}, "$.digest")
    wrong = find_misfit(_LOG, header)
    if not wrong and not (header["log"] and 0 <= header["offset"] < _LARGEST):
        return f"$.offset: {header['offset']} of {header['log']!r}"
    return wrong


def validate_state(state: object) -> str:
    """Return what is wrong with a supervisor's state, "" where it fits."""
    wrong = find_misfit(_STATE, state)
    if wrong or not isinstance(state, dict):
        return wrong
    ranks = (state.get("exit") or {}).get("ranks") or {}
    return _not_a_rank(ranks, "$.exit.ranks")


def _not_a_rank(ranks: Iterable[str], place: str) -> str:
    odd = [rank for rank in ranks if not (rank.isascii() and rank.isdigit() and len(rank) < _MOST_DIGITS)]
    return f"{place}: {odd[0]!r} is not a rank" if odd else ""


def validate_runs(answer: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return an answer of mode list with the runs that fit, and why the first other does not."""
    runs = answer.get("runs", [])
    if not isinstance(runs, list):
        return {"runs": []}, "$.runs: expected a list"
    wrong = find_misfit(_ABOUT, answer)
    about = {"runs": []} if wrong else dict(answer)
    found = [(run, _misfit_of_run(run)) for run in runs]
    problems = [misfit for _, misfit in found if misfit]
    return {**about, "runs": [run for run, misfit in found if not misfit]}, next(iter(problems), wrong)


def _misfit_of_run(run: object) -> str:
    wrong = find_misfit(_RUN, run)
    if wrong or not isinstance(run, dict):
        return wrong
    if not is_run_id(run["run_id"]):
        return f"{run['run_id']!r} is not a run id"
    return validate_state(run.get("state") or {})
