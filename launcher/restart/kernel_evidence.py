"""What the kernels of the hosts said of GPUs during a run, and what that makes of its diagnosis. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from launcher.follow.outcome import Outcome
from preflight.facts.host import HostFacts, KernelLog
from preflight.facts.missing import Missing

KernelLogs = Mapping[str, KernelLog]


def read_kernel_logs(facts: Mapping[str, HostFacts]) -> dict[str, KernelLog]:
    """Return the kernel logs of the hosts where they could be read."""
    logs = {host: each.kernel_log for host, each in facts.items()}
    return {host: log for host, log in logs.items() if not isinstance(log, Missing)}


def select_entries_since(old: KernelLog | None, new: KernelLog | None) -> KernelLog | None:
    """Return what is new in a host's kernel log; None where one of the two could not be read.

    Without kills for lack of memory: of those the supervisors say more, which count them as they happen.
    """
    if old is None or new is None:
        return None
    return replace(
        new,
        xids=tuple(each for each in new.xids if each not in old.xids),
        oom_kills=(),
        other=tuple(each for each in new.other if each not in old.other),
    )


def refine_with_kernel_log(outcome: Outcome, before: KernelLogs, after: KernelLogs) -> Outcome:
    """Return the outcome with its diagnosis weighed by the kernel log of the host that failed first."""
    cause, diagnosis = outcome.cause.failure, outcome.cause.diagnosis
    if cause is None or diagnosis is None:
        return outcome
    log = select_entries_since(before.get(cause.host), after.get(cause.host))
    if log is None:
        return outcome
    log = replace(log, oom_kills=(cause.kernel_oom,) if cause.kernel_oom else ())
    codes = () if cause.code is None else (cause.code,)
    from preflight.diagnosis.context import Context, apply_context  # noqa: PLC0415 - only a failure needs it

    causes = apply_context(diagnosis.causes, Context(kernel_logs=(log,), exit_codes=codes))
    verdict = causes[0].slug if causes else diagnosis.verdict
    found = replace(diagnosis, verdict=verdict, causes=causes)
    return replace(outcome, cause=replace(outcome.cause, diagnosis=found))
