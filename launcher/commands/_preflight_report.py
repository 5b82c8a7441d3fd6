"""The report of a preflight as `preflight`, `run` and `rehearse` print it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.config.node_sets import fold_hosts
from launcher.host_checks.render_text import render_report
from launcher.host_checks.shown_info import note_shown
from launcher.terminal.cell_width import StyledLine
from launcher.terminal.screen import Screen
from preflight.errors import GpulaunchError

if TYPE_CHECKING:
    from launcher.host_checks.evaluation import PreflightResult


def render_todays_report(result: "PreflightResult", *, verbose: bool) -> Iterator[StyledLine]:
    """Yield the report, without information that this user has seen of a host within a day."""
    repeated = note_shown(result.findings)
    return render_report(result, verbose=verbose, repeated=repeated)


def print_report(screen: Screen, result: "PreflightResult", *, verbose: bool = False) -> None:
    """Print the report above the screen's lowest lines."""
    for line in render_todays_report(result, verbose=verbose):
        screen.print_line(line)


def shorten_error(error: GpulaunchError, result: "PreflightResult") -> GpulaunchError:
    """Return the error that ends a launch, in short where the report above it holds the whole."""
    if error.message in {each.message for each in result.errors.values()}:
        codes = ",".join(sorted({each.code for each in result.errors.values()}))
        hosts = fold_hosts(tuple(result.errors))
        return error.with_summary(f"nothing was started: {hosts} cannot be used ({codes})")
    if result.would_use is not None and error.message == result.would_use.problem:
        return error.with_summary("nothing was started: these hosts allow no launch")
    return error
