"""The report of a preflight as `preflight`, `run` and `rehearse` print it."""

from collections.abc import Iterator

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
    """Print the report above the screen's lowest lines."""
    for line in todays_report(result, verbose=verbose):
        screen.print_line(line)
