"""The hosts of a first start: spares take the places of those that its preflight finds bad."""

from collections.abc import Callable
from dataclasses import replace

from launcher.config.inventory import HostEntry
from launcher.host_checks.evaluation import PreflightResult
from launcher.launch.launch import CheckedLaunch, preflight_hosts
from launcher.launch.request import LaunchRequest
from launcher.restart.replacement import HostAssignment, host_faults, rank_counts_after, replace_host


def check_with_spares(
    launch: LaunchRequest, spares: tuple[HostEntry, ...], on_result: Callable[[PreflightResult], None]
) -> tuple[CheckedLaunch, HostAssignment]:
    """Preflight until nothing more is to be replaced. Raises the HostError of a host that has no spare.

    What all hosts have in common condemns none of them: a script that no host has, say.
    """
    lineup = HostAssignment(launch.entries, spares)
    job = launch.job
    while True:
        result = preflight_hosts(launch)
        on_result(result)
        found = host_faults(lineup, result)
        if not found or not lineup.spares or len(found) == len(lineup.entries) > 1:
            break
        for fault in found:
            lineup = replace_host(lineup, fault.host, fault.why) if lineup.spares else lineup
        launch = replace(launch, entries=lineup.entries, job=rank_counts_after(job, lineup))
    for error in result.errors.values():
        raise error
    return CheckedLaunch(launch, result, result.script), lineup
