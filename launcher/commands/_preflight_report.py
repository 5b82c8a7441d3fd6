"""The report of a preflight as `preflight`, `run` and `rehearse` print it."""

from collections.abc import Iterator

from launcher.config.host_sets import short_host_range
from launcher.host_checks.evaluation import PreflightResult
from launcher.host_checks.render_text import report_lines
from launcher.host_checks.shown_info import note_shown
from launcher.terminal.cell_width import StyledLine
from launcher.terminal.screen import Screen


def todays_report(result: PreflightResult, *, verbose: bool) -> Iterator[StyledLine]:
    """Yield the report, without information that this user has seen of a host within a day."""
    repeated = note_shown(result.findings)
    return report_lines(result, verbose=verbose, repeated=repeated)


def print_report(screen: Screen, result: PreflightResult, *, verbose: bool = False) -> None:
    """Print the report above the screen's lowest lines; an error that it holds is then reported in short."""
    for line in todays_report(result, verbose=verbose):
        screen.print_line(line)
    if not result.errors:
        return
    codes = ",".join(sorted({error.code for error in result.errors.values()}))
    summary = f"nothing was started: {short_host_range(tuple(result.errors))} cannot be used ({codes})"
    for error in result.errors.values():
        error.summary = summary
