"""gpulaunch attach: back to a run, from here or from any other machine."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from launcher.commands.runs_options import LOGS, found_run, nodes_of, run_options, ways_of
from launcher.report.outcome import tell
from launcher.report.run import launch_lines
from launcher.runs.attach import Attachment, Choice
from launcher.terminal.live import screen_on
from launcher.terminal.screen import Screen


@click.command("attach")
@click.argument("run")
@click.option("--stop-on-exit", is_flag=True, help="Ctrl-C stops the run, without a question.")
@click.option(
    "--logs",
    type=click.Path(file_okay=False, path_type=Path),
    default=LOGS,
    show_default=True,
    help="Where each rank's full log is kept here.",
)
@click.option("--plain", is_flag=True, help="Whole lines only, as into a pipe; nothing is redrawn.")
@click.option("--all-ranks", is_flag=True, help="On a terminal, also lines that repeat another rank's.")
@run_options
def command(run: str, **options: Any) -> int:
    """Follow RUN (a unique beginning of its id, or `last`) as `gpulaunch run` does, to its end.

    Of what was printed before, the last part is shown; the logs here get all of it. Ctrl-C asks whether to
    detach or to stop the run; without a terminal it detaches. The exit code is the run's; 0 after detaching.
    """
    ways = ways_of(options)
    plan, entries = nodes_of(found_run(run, ways, options), ways)
    screen = screen_on(sys.stdout, plain=options["plain"], all_ranks=options["all_ranks"])
    choose = _stop if options["stop_on_exit"] else _asker(screen)
    attachment = Attachment(plan, entries, ways.open, screen, logs=options["logs"], choose=choose)
    for line in launch_lines(plan, str(options["logs"] / plan.run_id)):
        screen.say(line)
    try:
        outcome = attachment.run()
    finally:
        screen.lift()
    if outcome is None:
        screen.say(f"detached; the run goes on. Come back with: gpulaunch attach {plan.run_id}")
        return 0
    tell(outcome, screen)
    return outcome.exit_code


def _stop() -> Choice:
    return "stop"


def _asker(screen: Screen) -> Callable[[], Choice]:
    if not (sys.stdin.isatty() and screen.stream.isatty()):
        return lambda: "detach"
    return lambda: _ask(screen)


def _ask(screen: Screen) -> Choice:
    """Ask at the terminal; a second Ctrl-C, or its end, detaches: nothing is lost by that."""
    screen.say("Ctrl-C: [d]etach and let the run go on, [s]top the run, or Enter to stay?")
    screen.lift()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        word = sys.stdin.readline()
    except KeyboardInterrupt:
        return "detach"
    finally:
        signal.signal(signal.SIGINT, before)
    if not word:
        return "detach"
    choices: dict[str, Choice] = {"d": "detach", "s": "stop"}
    return choices.get(word.strip().lower()[:1], "go on")
