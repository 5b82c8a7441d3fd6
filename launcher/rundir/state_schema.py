"""The shape of what hosts report of runs, checked where it comes in: an odd host affects no other."""

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.rundir.run_id import is_run_id
from preflight.errors import MalformedFacts
from preflight.facts.json_codec import decode
from preflight.frozen import dataclass

_MOST_DIGITS = 9
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class _Spec:
    node_rank: int | None = None
    nodes: int | None = None
    ranks: int | None = None
    first_rank: int | None = None
    grace_s: float | None = None
    world_size: int | None = None
    job: str | None = None
    gpus: tuple[str, ...] | None = None
    slurm_job: str | None = None


@dataclass(frozen=True, slots=True)
class _Exit:
    ranks: dict[str, int | None] | None = None
    why: str | None = None
    cause: str | None = None
    requested: bool | None = None
    since: float | None = None
    launcher_code: int | None = None
    remaining_pids: tuple[int, ...] | None = None
    port_free: bool | None = None


@dataclass(frozen=True, slots=True)
class _State:
    phase: str | None = None
    run_dir: str | None = None
    started: float | None = None
    ended: float | None = None
    exit: _Exit | None = None


@dataclass(frozen=True, slots=True)
class _Next:
    state: str | None = None
    why: str | None = None
    run_id: str | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class _Stall:
    pid: int
    silent_s: float
    stopped: bool


@dataclass(frozen=True, slots=True)
class _Run:
    run_id: str
    spec: _Spec
    state: _State | None = None
    client_age_s: float | None = None
    tail: str | None = None
    next: _Next | None = None
    kept: bool | None = None
    stall: _Stall | None = None


@dataclass(frozen=True, slots=True)
class _Digest:
    lines: int
    last: str
    said: dict[str, int]


@dataclass(frozen=True, slots=True)
class _About:
    t: float | None = None
    digest: dict[str, _Digest] | None = None
    gpu_use: dict[str, tuple[float, float]] | None = None
    stall: _Stall | None = None
    host: str | None = None
    other_hosts: dict[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    state: _State | None = None
    sizes: dict[str, int] | None = None
    t: float | None = None
    stall: _Stall | None = None
    same_work: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Log:
    log: str
    offset: int
    t: float | None = None


def validate_answer(answer: object) -> str:
    """Return what is wrong with the first thing that a supervisor says of one run, "" where it fits."""
    wrong = _misfit(_Answer, answer)
    if wrong or not isinstance(answer, dict) or not answer.get("state"):
        return wrong
    return validate_state(answer["state"])


def validate_frame(header: Mapping[str, Any]) -> str:
    """Return what is wrong with a later frame of a supervisor, "" where it fits."""
    if "log" not in header:
        return _misfit(_About, header) or _not_a_rank(header.get("digest") or {}, "$.digest")
    wrong = _misfit(_Log, header)
    if not wrong and not (header["log"] and 0 <= header["offset"] < _LARGEST):
        return f"$.offset: {header['offset']} of {header['log']!r}"
    return wrong


def validate_state(state: object) -> str:
    """Return what is wrong with a supervisor's state, "" where it fits."""
    wrong = _misfit(_State, state)
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
    wrong = _misfit(_About, answer)
    about = {"runs": []} if wrong else dict(answer)
    found = [(run, _misfit_of_run(run)) for run in runs]
    problems = [misfit for _, misfit in found if misfit]
    return {**about, "runs": [run for run, misfit in found if not misfit]}, next(iter(problems), wrong)


def _misfit_of_run(run: object) -> str:
    wrong = _misfit(_Run, run)
    if wrong or not isinstance(run, dict):
        return wrong
    if not is_run_id(run["run_id"]):
        return f"{run['run_id']!r} is not a run id"
    return validate_state(run.get("state") or {})


def _misfit(kind: type[Any], data: object) -> str:
    try:
        decode(kind, data)
    except MalformedFacts as misfit:
        return misfit.message
    return ""
