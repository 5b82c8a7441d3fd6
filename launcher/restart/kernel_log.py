"""What the kernels of the hosts said of GPUs during a run, and what that makes of its diagnosis. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from launcher.follow.outcome import Outcome
from preflight.diagnosis.context import Context, apply_context
from preflight.facts.host import HostFacts, KernelLog
from preflight.facts.missing import Missing

Facts = Mapping[str, HostFacts]


def entries_since(before: HostFacts | None, after: HostFacts | None) -> KernelLog | None:
    """Return what is new in a host's kernel log; None where one of the two could not be read.

    Without kills for lack of memory: of those the supervisors say more, which count them as they happen.
    """
    if before is None or after is None:
        return None
    old, new = before.kernel_log, after.kernel_log
    if isinstance(old, Missing) or isinstance(new, Missing):
        return None
    return replace(
        new,
        xids=tuple(each for each in new.xids if each not in old.xids),
        oom_kills=(),
        other=tuple(each for each in new.other if each not in old.other),
    )


def refine_with_kernel_log(outcome: Outcome, before: Facts, after: Facts) -> Outcome:
    """Return the outcome with its diagnosis weighed by the kernel log of the host that failed first."""
    cause, diagnosis = outcome.cause.failure, outcome.cause.diagnosis
    if cause is None or diagnosis is None:
        return outcome
    log = entries_since(before.get(cause.host), after.get(cause.host))
    if log is None:
        return outcome
    log = replace(log, oom_kills=(cause.kernel_oom,) if cause.kernel_oom else ())
    codes = () if cause.code is None else (cause.code,)
    signals = tuple(-code for code in codes if code < 0)
    causes = apply_context(
        diagnosis.causes, Context(kernel_logs=(log,), exit_codes=codes, exit_signals=signals)
    )
    verdict = causes[0].slug if causes else diagnosis.verdict
    found = replace(diagnosis, verdict=verdict, causes=causes)
    return replace(outcome, cause=replace(outcome.cause, diagnosis=found))
