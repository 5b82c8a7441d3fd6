"""The deep checks as commands run them: after a preflight of the hosts, before a launch on them."""

import sys
from typing import Protocol

from launcher.commands._host_options import HostAccess
from launcher.deep.measurement import findings_with, measure_hosts
from launcher.deep.save_expect import save_floors
from launcher.deep.targets import DeepOptions
from launcher.host_checks.preflight import PreflightResult
from launcher.launch.request import FollowOptions, LaunchRequest
from launcher.local.project import local_runs_dir
from launcher.remote.connection_pool import ConnectionPool
from launcher.report.deep import DeepReport
from launcher.terminal.live_screen import screen_on
from preflight.job import Job


class DeepAsked(Protocol):
    """The options that a measurement goes by."""

    @property
    def seconds(self) -> float:
        """How long the matrix products take."""

    @property
    def save_expect(self) -> bool:
        """Whether floors go to hosts.yaml."""


def measure_after(
    result: PreflightResult,
    job: Job,
    ways: HostAccess,
    options: DeepAsked,
    *,
    ignore: frozenset[str] = frozenset(),
    to_stderr: bool = False,
) -> tuple[PreflightResult, DeepReport]:
    """Measure the hosts of a preflight; return its result with the deep findings, and the report."""
    connections = ConnectionPool(ways.open)
    screen = screen_on(sys.stderr if to_stderr else sys.stdout)
    launch = LaunchRequest(
        entries=result.entries,
        job=job,
        connections=connections,
        ignore=ignore,
        follow=FollowOptions(logs=local_runs_dir()),
        width=ways.width,
    )
    try:
        report = measure_hosts(launch, result, screen, DeepOptions(seconds=options.seconds))
    finally:
        screen.clear()
        connections.close()
    if options.save_expect:
        for line in save_floors(report.readings, ways.inventory):
            screen.notify(line)
    return findings_with(result, report), report
