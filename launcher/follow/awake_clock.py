"""A clock that counts only while this process is awake: a sleeping laptop makes no host silent."""

import threading
import time
from collections.abc import Callable

SLEEP_S = 5.0  # the run's loop and its hosts' threads look ten times a second: who looks so late has slept


def read_boot_time() -> float:
    """Return the seconds since boot with those of suspend, where the system counts them."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class AwakeClock:
    """Shared by all that judge silence. What passes between two looks that are far apart is not counted."""

    def __init__(self, clock: Callable[[], float] = read_boot_time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last = clock()
        self._awake = 0.0
        self._asleep = 0.0

    def read(self) -> float:
        """Return for how many seconds it has been awake, and count this as a look."""
        with self._lock:
            at = self._clock()
            passed, self._last = at - self._last, at
            if passed > SLEEP_S:
                self._asleep += passed
            else:
                self._awake += max(0.0, passed)
            return self._awake

    def pop_sleep(self) -> float:
        """Return the seconds of sleep that were noticed since this was asked last."""
        self.read()
        with self._lock:
            asleep, self._asleep = self._asleep, 0.0
            return asleep
