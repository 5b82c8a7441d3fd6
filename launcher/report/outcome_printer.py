"""The end of a run at the terminal: its curves, then its outcome."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from launcher.config.host_access_args import complete_run_commands
from launcher.follow.outcome import Outcome
from launcher.report.outcome import render_outcome
from launcher.terminal.screen import Screen


def print_outcome(outcome: Outcome, screen: Screen, run_words: Sequence[str] = ()) -> None:
    """Report how a run went; `run_words` are the options that its commands need to find the run."""
    for line in _curves(outcome, screen.stream):
        screen.print_line(line)
    for line in render_outcome(_without_shown_lines(outcome, screen)):
        screen.notify(complete_run_commands(line, run_words), bad=outcome.exit_code != 0)


def _without_shown_lines(outcome: Outcome, screen: Screen) -> Outcome:
    """Return the outcome of a single rank without the last lines of its failure, shown right above."""
    cause = outcome.cause.failure
    if cause is None or outcome.plan.world_size > 1:
        return outcome
    if not screen.has_shown(cause.host, cause.last_lines):
        return outcome
    return replace(outcome, cause=replace(outcome.cause, failure=replace(cause, last_lines=())))


def _curves(outcome: Outcome, stream: TextIO) -> Iterator[str]:
    """Yield the loss and the gradient norm of a run that is over as small plots, where they are printed."""
    if outcome.verdict == "detached":
        return
    from launcher.report.sparkline import render_curves  # noqa: PLC0415 - at the end, nothing waits for it any more

    plain = "utf" not in (stream.encoding or "").lower()
    yield from render_curves(outcome.directory, ascii_only=plain)
