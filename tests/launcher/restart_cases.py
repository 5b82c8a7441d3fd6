"""Outcomes and preflights as literals for the tests of restarts."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import HostError
from launcher.follow.failures import Failure
from launcher.follow.outcome import Cleanup, EndCause, Outcome, Verdict, build_outcome
from launcher.follow.run_state import RunState
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.result import PreflightResult
from launcher.remote.agent import GatherResult
from preflight.diagnosis.diagnose import diagnose_logs
from preflight.diagnosis.host_evidence import Context
from preflight.diagnosis.lines import Log
from preflight.facts.host import KernelLog, Reach
from preflight.job import Job
from tests.launcher.run_plans import NOWHERE, plan
from tests.preflight.golden_cases import host

CPU = (None,)
JOB = Job(name="j", gpus="all", workdir="/work")


def ended(
    verdict: Verdict = "failed",
    *,
    code: int | None = 1,
    rank: int | None = 1,
    log: str = "",
    hung: bool = False,
    exception: Mapping[str, Any] | None = None,
    oom: str = "",
    signalled: bool = False,
    lost: Mapping[str, str] | None = None,
    **changes: Any,
) -> Outcome:
    """Return the outcome of a run on a and b whose root cause, if it failed, was on b."""
    base = build_outcome(RunState(plan(CPU, CPU)), NOWHERE, 100.0, 1)
    cause = (
        Failure("b", 1.0, rank, code, "it failed", exception=exception or {}, hung=hung, kernel_oom=oom)
        if verdict == "failed"
        else None
    )
    codes = () if code is None else (code,)
    kernel = (KernelLog("kmsg", (), (oom,), ()),) if oom else ()
    context = Context(kernel_logs=kernel, exit_codes=codes)
    diagnosis = diagnose_logs((Log(log, "b/rank-1.log", rank, "b"),), context) if cause is not None else None
    exit_code = changes.pop("exit_code", 0 if verdict == "finished" else 1)
    why = changes.pop("why", "it failed")
    return replace(
        base,
        verdict=verdict,
        exit_code=exit_code,
        cause=EndCause(cause, diagnosis, signalled=signalled),
        why=why,
        cleanup=Cleanup(lost or {}),
        **changes,
    )


def entries(*names: str) -> tuple[HostEntry, ...]:
    return tuple(HostEntry(name) for name in names)


def preflighted(
    hosts: tuple[HostEntry, ...],
    overlays: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    unreachable: tuple[str, ...] = (),
    cut: tuple[str, ...] = (),
    job: Job = JOB,
    why: str = "timed out",
) -> PreflightResult:
    """Return a judged preflight of healthy hosts but for what overlays say; `cut` ones reach no main host."""
    facts = {}
    for entry in hosts:
        if entry.name not in unreachable:
            uuids = {f"gpus.{n}.uuid": f"GPU-{entry.name}-{n}" for n in (0, 1)}
            overlay = dict((overlays or {}).get(entry.name, {}))
            facts[entry.name] = host({**uuids, **overlay}, entry.name)
    errors = {name: HostError(name, "no answer") for name in unreachable}
    main = hosts[0].name
    reach = tuple(
        Reach(name, main, "10.0.0.1", 29500, ok=name not in cut, error=why if name in cut else "", ms=1.0)
        for name in facts
        if name != main
    )
    clocks = dict.fromkeys(facts, (0.0, 0.0))
    return evaluate_facts(hosts, GatherResult(facts, errors), job, reach=reach, clocks=clocks)
