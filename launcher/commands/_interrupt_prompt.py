"""The question of Ctrl-C at a terminal; the run continues meanwhile."""

import select
import sys
import time
from collections.abc import Callable

from launcher.launch.signals import CTRL_C, InterruptChoice
from launcher.terminal.hangup import has_hung_up
from launcher.terminal.screen import Screen

_TURN_S = 0.1  # how often the question looks for signals: they wait for the run's loop, which it holds up
_PATIENCE_S = 60.0  # longer, and a rank that fails meanwhile would leave those of other hosts waiting
_CHOICES: dict[str, InterruptChoice] = {"d": "detach", "s": "stop"}


def build_ctrl_c_prompt(screen: Screen, *, again: InterruptChoice) -> Callable[[], InterruptChoice] | None:
    """Return what asks, None without a terminal. `again`: what a second Ctrl-C at the question means."""
    if not (sys.stdin.isatty() and screen.stream.isatty()):
        return None
    return lambda: _ask(screen, again)


def _ask(screen: Screen, again: InterruptChoice) -> InterruptChoice:
    """Ask; the end of the terminal detaches: nothing is lost by that."""
    screen.notify(
        f"Ctrl-C: [d]etach and let the run continue, [s]top the run, or Enter to stay? (Ctrl-C: {again})"
    )
    screen.clear()
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while not (waiting := screen.hurried) and not select.select([sys.stdin], [], [], _TURN_S)[0]:
            if time.monotonic() > deadline:
                screen.notify("no answer: still following the run")
                return "stay"
        word = "" if waiting else sys.stdin.readline()
    except OSError:  # the terminal was closed
        return "detach"
    if waiting:
        screen.break_line()  # the terminal has shown ^C on this line
        answer: InterruptChoice = "stay"  # the run's loop heeds the others
        if waiting == CTRL_C:
            answer = again
            screen.take_hurried()
        return "detach" if has_hung_up() else answer
    return _CHOICES.get(word.strip().lower()[:1], "stay") if word else "detach"
