"""The preflight's verdict before a tree is put in place under a run that works in the same directory."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from launcher.commands._launch_sync import expect_tree
from launcher.commands._preflight_report import print_report
from launcher.config.run_config import RunConfig
from launcher.errors import GpulaunchError
from launcher.launch.request import LaunchRequest
from launcher.terminal.screen import Screen

if TYPE_CHECKING:
    from launcher.host_checks.evaluation import PreflightResult


def demand_verdict(
    config: RunConfig,
    launch: LaunchRequest,
    screen: Screen,
    check: "Callable[[LaunchRequest, Callable[[PreflightResult], None]], object]",
    *,
    verbose: bool = False,
) -> None:
    """Raise what refuses this launch, so that nothing of its tree is put in place.

    `check` judges a launch as the one that follows will, and gives its reports; those of a refusal are shown.
    """
    results: list[PreflightResult] = []
    try:
        check(expect_tree(config, launch), results.append)
    except GpulaunchError as error:
        for result in results:
            print_report(screen, result, verbose=verbose)
        screen.notify("sync: nothing was put in place")
        raise error from None
