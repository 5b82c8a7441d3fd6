"""What kernels and drivers of hosts said of GPUs during a run, and what that makes of its diagnosis. Pure."""

from collections.abc import Mapping
from dataclasses import replace

from launcher.follow.outcome import Outcome
from preflight.checks.gpus import no_gpu_is_lost
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


def refine_with_host(outcome: Outcome, before: KernelLogs, after: Mapping[str, HostFacts]) -> Outcome:
    """Return the outcome, its diagnosis weighed by what the host that failed first says of its GPUs now."""
    cause, diagnosis = outcome.cause.failure, outcome.cause.diagnosis
    facts = after.get(cause.host) if cause is not None else None
    if cause is None or diagnosis is None or facts is None:
        return outcome
    log = select_entries_since(before.get(cause.host), read_kernel_logs(after).get(cause.host))
    had = {slot.gpu_index for _, node, slot in outcome.plan.slots if node.host == facts.host}
    problems = () if isinstance(facts.gpus, Missing) else no_gpu_is_lost(facts.gpus)
    lost = tuple(f"gpu{each.gpu}: {each.message}" for each in problems if each.gpu in had)
    if log is None and not lost:
        return outcome
    kills = (cause.kernel_oom,) if cause.kernel_oom else ()
    logs = () if log is None else (replace(log, oom_kills=kills),)
    codes = () if cause.code is None else (cause.code,)
    from preflight.diagnosis.host_evidence import Context, apply_context  # noqa: PLC0415 - only a failure needs it

    causes = apply_context(diagnosis.causes, Context(kernel_logs=logs, exit_codes=codes, lost_gpus=lost))
    verdict = causes[0].slug if causes else diagnosis.verdict
    found = replace(diagnosis, verdict=verdict, causes=causes)
    return replace(outcome, cause=replace(outcome.cause, diagnosis=found))
