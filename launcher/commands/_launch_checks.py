"""The hosts of a launch, checked after leftovers have made room where they may."""

import sys
from collections.abc import Callable, Mapping

from launcher.commands._answer import confirm
from launcher.commands._launch_request import LaunchOptions, LaunchSession, RunRequest
from launcher.commands._preflight_report import print_report, shorten_error
from launcher.errors import GpulaunchError
from launcher.host_checks.render_json import encode_preflight
from launcher.host_checks.result import PreflightResult
from launcher.launch.launch import CheckedLaunch, preflight_or_raise
from launcher.launch.request import LaunchRequest
from launcher.launch.signals import report_stop_signals
from launcher.terminal.screen import Screen


def check_launch(
    request: RunRequest,
    launch: LaunchRequest,
    session: LaunchSession,
    show: Callable[[PreflightResult], None] | None = None,
) -> tuple[CheckedLaunch, Mapping[str, str]]:
    """Check the hosts, after leftovers have made room where they may; return who was left out, too.

    `show` takes each report in place of the screen. Raises what refuses the launch.
    """
    options, screen, before = session.options, session.screen, session.before
    results: list[PreflightResult] = []

    def on_result(result: PreflightResult) -> None:
        results.append(result)
        if show is None:
            print_report(screen, result, verbose=options.verbose)
        else:
            show(result)

    try:
        with before.phase("preflight"):
            prepared, left_out = _check_first(request, launch, options, on_result)
        for host, why in left_out.items() if request.others else ():
            screen.notify(f"{host} is left out: {why}")
        if options.dry_run:
            return prepared, left_out
        launch = prepared.launch
        if _made_room(prepared, screen, options):
            screen.notify("leftovers were ended; checking the hosts again")
            with before.phase("preflight"):
                prepared = preflight_or_raise(launch, on_result)
        prepared.raise_if_blocked()
    except GpulaunchError as error:
        if results:
            if request.slurm_job is not None:
                from launcher.commands._job_end import refuse_bad_nodes  # noqa: PLC0415 - only in a job of Slurm

                said = screen.print_line
                error = refuse_bad_nodes(
                    request, request.slurm_job, results[-1], error, launch.follow.logs, said
                )
            error = shorten_error(error, results[-1]).with_document(encode_preflight(results[-1]))
        raise error from None
    return prepared, left_out


def _check_first(
    request: RunRequest,
    launch: LaunchRequest,
    options: LaunchOptions,
    on_result: Callable[[PreflightResult], None],
) -> tuple[CheckedLaunch, Mapping[str, str]]:
    """Check the hosts; in a Slurm job its spare nodes take the places of bad ones, else others of the list.

    Not where those chosen have more than the others: the tree, or a place in the queue for GPUs.
    """
    spares = request.others if request.config.sync is None and options.wait is None else ()
    spares = request.spares if request.slurm_job is not None else spares
    if not spares:
        return preflight_or_raise(launch, on_result), {}
    from launcher.restart.host_set import check_with_spares  # noqa: PLC0415 - most launches do without it

    prepared, lineup = check_with_spares(launch, spares, on_result)
    return prepared, lineup.excluded


@report_stop_signals()
def _made_room(prepared: CheckedLaunch, screen: Screen, options: LaunchOptions) -> bool:
    """End leftovers of the user's own that block the launch, or all of them with --clean."""
    from launcher.cleanup.before_launch import clean_before_launch, list_leftovers  # noqa: PLC0415

    launch = prepared.launch
    found = list_leftovers(launch.entries, prepared.result.facts)
    if not options.clean and (prepared.refusal() is None or not any(host.blocks_launch for host in found)):
        return False
    asks = sys.stdin.isatty() and not options.as_json
    done = clean_before_launch(
        found, launch.connections, screen.print_line, certain=options.clean, confirm=confirm if asks else None
    )
    if found and not done:
        screen.notify("nothing was ended; --clean ends what is proven left over, before the launch")
    return done
