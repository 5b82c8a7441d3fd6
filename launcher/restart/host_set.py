"""The hosts of a start: spares in place of bad ones, a fine preflight, and on each the last start is over."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.follow.outcome import Outcome
from launcher.host_checks.result import PreflightResult
from launcher.launch.launch import CheckedLaunch, preflight_hosts
from launcher.launch.request import LaunchRequest
from launcher.restart import replacement
from launcher.restart.decision import RunFailure
from launcher.restart.new_kernel_entries import refine_with_host
from launcher.runs.stop import stop_run
from preflight.facts.host import HostFacts, KernelLog
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class SparePolicy:
    """Whom a new start may take. `exclude` False: the same hosts, all of them."""

    spares: tuple[HostEntry, ...]
    exclude: bool
    # What a spare gets before it takes part; raises GpulaunchError.
    prepare_spare: Callable[[HostEntry], None]


@dataclass(frozen=True, slots=True)
class HostSet:
    """Who continues by the last preflight; `result` None: no host. `facts` are of all that were asked.

    `back` are hosts that were lost and answer again.
    """

    assignment: replacement.HostAssignment
    result: PreflightResult | None
    facts: Mapping[str, HostFacts]
    back: frozenset[str] = frozenset()


def select_hosts(launch: LaunchRequest, outcome: Outcome, reason: RunFailure, choice: SparePolicy) -> HostSet:
    """Leave out who was lost or is bad, let spares take their places. `launch` is the one that is over."""
    launch.connections.close()  # what was kept is as old as the run
    lost = [entry for entry in launch.entries if entry.name in outcome.cleanup.lost]
    back = tuple(_ended(launch, outcome.plan.run_id, lost))
    lineup = replacement.HostAssignment(launch.entries, (*choice.spares, *back))
    if not choice.exclude:
        return _settle(launch, replace(lineup, spares=()), choice, (), back)
    for host, why in outcome.cleanup.lost.items():
        lineup = replacement.replace_host(lineup, host, f"it was lost ({why})")
    for host in outcome.cleanup.remaining_pids:
        lineup = replacement.replace_host(lineup, host, "processes of the last start on it cannot be ended")
    return _settle(launch, lineup, choice, _condemned(outcome, reason), back)


def weigh_by_failed_host(launch: LaunchRequest, outcome: Outcome, before: Mapping[str, KernelLog]) -> Outcome:
    """Return the outcome of `launch`, weighed by what the host that failed first says of its GPUs now.

    CUDA has the same words for a bug in a kernel and for a GPU that fell off the bus.
    """
    cause = outcome.cause.failure
    entries = tuple(each for each in launch.entries if cause is not None and each.name == cause.host)
    if not entries:
        return outcome
    launch.connections.close()
    with suppress(GpulaunchError):  # a host that cannot say more leaves it a crash
        return refine_with_host(outcome, before, preflight_hosts(replace(launch, entries=entries)).facts)
    return outcome


def _ended(launch: LaunchRequest, run_id: str, lost: Sequence[HostEntry]) -> Iterator[HostEntry]:
    """Yield the lost hosts that answer again, once the start that was lost on them has ended."""
    if not lost:
        return
    why, borrow = "it is started again elsewhere", launch.connections.borrow
    results = stop_run(run_id, lost, borrow, grace_s=0.0, why=why, is_failure=True)
    for entry, result in zip(lost, results, strict=True):
        if isinstance(result, GpulaunchError):
            continue
        state = result.get("state") or {}
        if state.get("phase") == "ended" and not (state.get("exit") or {}).get("remaining_pids"):
            yield entry


def _settle(
    launch: LaunchRequest,
    lineup: replacement.HostAssignment,
    choice: SparePolicy,
    condemned: Sequence[replacement.HostFault],
    back: Sequence[HostEntry],
) -> HostSet:
    """Preflight until nothing more is to be left out."""
    known = {entry.name for entry in launch.entries}
    facts: dict[str, HostFacts] = {}
    names = frozenset(entry.name for entry in back)
    while lineup.entries:
        new = next((each for each in lineup.entries if each.name not in known), None)
        if new is not None:
            known.add(new.name)
            try:
                choice.prepare_spare(new)
            except GpulaunchError as error:
                lineup = replacement.replace_host(lineup, new.name, error.message)
            continue
        result = preflight_hosts(
            replace(launch, entries=lineup.entries, job=replacement.rank_counts_after(launch.job, lineup))
        )
        facts |= result.facts
        better = (
            replacement.exclude_faulty(lineup, result, launch.job, condemned) if choice.exclude else lineup
        )
        condemned = ()
        if better == lineup:
            return HostSet(lineup, result, facts, names)
        lineup = better
    return HostSet(lineup, None, facts, names)


def _condemned(outcome: Outcome, reason: RunFailure) -> tuple[replacement.HostFault, ...]:
    """Return the GPU that a rank's own log says has failed: a contained fault shows nowhere else."""
    return tuple(
        replacement.HostFault(node.host, f"gpu{slot.gpu_index}: {reason.description}", (slot.gpu_uuid,))
        for rank, node, slot in outcome.plan.slots
        if rank == reason.rank and slot.gpu_uuid and slot.gpu_index is not None
    )


def check_with_spares(
    launch: LaunchRequest, spares: tuple[HostEntry, ...], on_result: Callable[[PreflightResult], None]
) -> tuple[CheckedLaunch, replacement.HostAssignment]:
    """Preflight until nothing more is to be replaced. Raises the HostError of a host that has no spare.

    What all hosts have in common condemns none of them: a script that no host has, say.
    """
    lineup = replacement.HostAssignment(launch.entries, spares)
    job = launch.job
    while True:
        result = preflight_hosts(launch)
        on_result(result)
        found = replacement.list_host_faults(lineup, result)
        if not found or not lineup.spares or len(found) == len(lineup.entries) > 1:
            break
        for fault in found:
            lineup = replacement.replace_host(lineup, fault.host, fault.why) if lineup.spares else lineup
        launch = replace(launch, entries=lineup.entries, job=replacement.rank_counts_after(job, lineup))
    for error in result.errors.values():
        raise error
    return CheckedLaunch(launch, result, result.script), lineup
