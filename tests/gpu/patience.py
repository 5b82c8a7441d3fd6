"""Time limits that follow the machine: a second counts less while more processes than cores run."""

import os
import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

POLL_S = 0.2
MOST_STRETCH = 20.0
Answer = TypeVar("Answer")


class Patience:
    """A limit in seconds of an idle machine, from its construction on."""

    def __init__(self, limit_s: float, *, at_most_s: float = float("inf")) -> None:
        self._left_s = limit_s
        self._last = time.monotonic()
        self._end = self._last + at_most_s

    def is_over(self) -> bool:
        """Return whether the limit is used up, or `at_most_s` on the clock; call it often."""
        now = time.monotonic()
        self._left_s -= (now - self._last) / stretch()
        self._last = now
        return self._left_s <= 0 or now >= self._end

    def wait_for(self, ask: Callable[[], Answer]) -> Answer | None:
        """Return the first answer that is not None, None when the limit is used up."""
        while (answer := ask()) is None:
            if self.is_over():
                return None
            time.sleep(POLL_S)
        return answer

    def wait(self, process: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> int | None:
        """Return the exit code of a process, None when the limit is used up."""
        while not self.is_over():
            try:
                return process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
        return process.poll()


def stretch(load: float | None = None, cores: int | None = None) -> float:
    """Return how many times longer things take, by the load of the last minute per core."""
    if load is None:
        load = os.getloadavg()[0]
    cores = cores or len(os.sched_getaffinity(0))
    return min(MOST_STRETCH, max(1.0, load / cores))
