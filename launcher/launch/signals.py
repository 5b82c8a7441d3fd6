"""Signals that ask the client to end, counted by a handler and taken by the run's loop."""

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Literal, TypeAlias

from launcher.follow.job_end import TIME_LIMIT

InterruptChoice: TypeAlias = Literal["detach", "stop", "stay"]  # a person's, after Ctrl-C

CTRL_C = "Ctrl-C"
TERMINAL_CLOSED = "SIGHUP"
BOUNCE_S = 0.25
"""Two SIGINT within this time are one press: a wrapper passes on what the terminal has sent already, and who
presses twice so fast has not seen what the first one does."""
_NAMES: dict[int, str] = {signal.SIGINT: CTRL_C, signal.SIGUSR1: TIME_LIMIT}


def choose_stop() -> InterruptChoice:
    """Have Ctrl-C stop the run without a question."""
    return "stop"


def choose_detach() -> InterruptChoice:
    """Have Ctrl-C leave the run without a question."""
    return "detach"


class SignalCounter:
    """Ctrl-C and its like, counted by the signal handler and taken by the loop."""

    def __init__(self) -> None:
        self._noted: list[int] = []
        self._pressed_at = float("-inf")

    def record(self, number: int, frame: FrameType | None) -> None:
        """Count one; the handler does nothing else, for it may run in the middle of anything."""
        del frame
        before = self._pressed_at
        if number == signal.SIGINT:
            self._pressed_at = time.monotonic()
        if number != signal.SIGINT or self._pressed_at - before >= BOUNCE_S:
            self._noted.append(number)

    @property
    def waiting(self) -> str:
        """The name of the one that has waited longest, "" when none is waiting."""
        return _signal_name(self._noted[0]) if self._noted else ""

    def pop(self, *, asks: bool = False) -> str:
        """Take the one that has waited longest; return its name, "" when none is waiting.

        `asks`: Ctrl-C is a question at the terminal. Where that was closed since, no user is left to answer.
        """
        if not self._noted:
            return ""
        if asks and self._noted[:2] == [signal.SIGINT, signal.SIGHUP]:
            del self._noted[0]
        return _signal_name(self._noted.pop(0))


@contextmanager
def capture_signals() -> Iterator[SignalCounter]:
    """Count SIGINT, SIGTERM, SIGUSR1 and SIGHUP instead of ending by them."""
    interrupts = SignalCounter()
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    with _handling(numbers, interrupts.record):
        yield interrupts


def raise_stop_signals() -> AbstractContextManager[None]:
    """Have SIGTERM and SIGUSR1 raise KeyboardInterrupt with their name, as Ctrl-C does without it."""
    return _handling((signal.SIGTERM, signal.SIGUSR1), _raise_stop)


@contextmanager
def report_stop_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt for the first signal of BOUNCE_S: `timeout` and a session that closes send two.

    What a script has put in the background, and nohup, stay deaf to theirs.
    """
    came = [float("-inf")]

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(time.monotonic())
        if came[-1] - came[-2] >= BOUNCE_S:
            _raise_stop(number, frame)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
    with _handling((number for number in numbers if signal.getsignal(number) != signal.SIG_IGN), stop):
        yield


def outlive_terminal() -> None:
    """Ignore SIGHUP until `report_stop_signals` ends: consent was given to what comes next."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@contextmanager
def _handling(
    numbers: Iterable[int], handle: Callable[[int, FrameType | None], None] | signal.Handlers
) -> Iterator[None]:
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise_stop(number: int, frame: FrameType | None) -> None:
    del frame
    raise KeyboardInterrupt(_signal_name(number))


def _signal_name(number: int) -> str:
    return _NAMES.get(number) or signal.Signals(number).name
