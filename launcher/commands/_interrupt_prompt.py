"""The question of Ctrl-C at a terminal; the run continues meanwhile."""

import select
import signal
import sys
from collections.abc import Callable

from launcher.launch.signals import CTRL_C, InterruptChoice
from launcher.terminal.hangup import has_hung_up
from launcher.terminal.screen import Screen

_TURN_S = 0.1
"""How often the question looks for other signals: they wait for the run's loop, which it holds up."""
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
    if waiting := screen.hurried:  # it has come while a slow terminal held up the question
        answer: InterruptChoice = again if waiting == CTRL_C else "stay"  # the run's loop heeds the others
        return "detach" if has_hung_up() else answer
    before = signal.getsignal(signal.SIGINT)

    def raise_once(*_: object) -> None:
        signal.signal(signal.SIGINT, before)  # a further one is for the run's loop, wherever we are by then
        raise KeyboardInterrupt

    try:
        signal.signal(signal.SIGINT, raise_once)
        while not select.select([sys.stdin], [], [], _TURN_S)[0]:
            if screen.hurried:  # SIGTERM is not asked about
                screen.break_line()
                return "stay"
        word = sys.stdin.readline()
    except KeyboardInterrupt:
        screen.break_line()  # the terminal has shown ^C on this line
        return again
    except OSError:  # the terminal was closed
        return "detach"
    finally:
        signal.signal(signal.SIGINT, before)
    return _CHOICES.get(word.strip().lower()[:1], "stay") if word else "detach"
