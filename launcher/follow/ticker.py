"""Time that passes for a followed run, however much happens to it."""

import queue
import time
from collections.abc import Callable

from launcher.follow.events import RunEvent, Tick

EVERY_S = 0.1


class TickerQueue:
    """Takes from the run's queue; many chatty hosts never leave it empty, and what waits must be judged."""

    def __init__(
        self, events: "queue.Queue[RunEvent]", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._events = events
        self._clock = clock
        self._ticked = clock()

    def get(self) -> RunEvent:
        """Return what happened next; a Tick where the last is EVERY_S ago, or nothing comes for so long."""
        if self._clock() - self._ticked < EVERY_S:
            try:
                return self._events.get(timeout=EVERY_S)
            except queue.Empty:
                pass
        self._ticked = self._clock()
        return Tick(time.time())
