"""The preflight's verdict before a tree is put in place under a run that works in the same directory."""

from dataclasses import replace
from typing import TYPE_CHECKING

from launcher.commands._launch_request import LaunchOptions, RunRequest
from launcher.commands._preflight_report import print_report, shorten_error
from launcher.errors import GpulaunchError
from launcher.host_checks.render_json import encode_preflight
from launcher.launch.launch import raise_if_blocked
from launcher.launch.request import LaunchRequest
from launcher.planning.script_file import makes_workdir, read_script_after_sync
from launcher.terminal.screen import Screen

if TYPE_CHECKING:
    from launcher.host_checks.evaluation import PreflightResult


def demand_verdict(what: RunRequest, launch: LaunchRequest, options: LaunchOptions, screen: Screen) -> None:
    """Raise what refuses this launch, so that nothing of its tree is put in place.

    Not where the verdict may change before the start: the launch waits for GPUs, ends leftovers first or has
    spare nodes.
    """
    if options.wait is not None or options.clean or what.spares:
        return
    arriving = replace(
        launch.preflight,
        script_after_sync=read_script_after_sync(what.config),
        makes_workdir=makes_workdir(what.config),
    )
    results: list[PreflightResult] = []
    try:
        raise_if_blocked(replace(launch, preflight=arriving), results.append)
    except GpulaunchError as error:
        for result in results:
            print_report(screen, result, verbose=options.verbose)
            error = shorten_error(error, result).with_document(encode_preflight(result))
        screen.notify("sync: nothing was put in place")
        raise error from None
