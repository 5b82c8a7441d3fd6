"""Places of hosts that are worked on side by side: who only waits for an answer gives the place to another.

A host that is silent costs its whole time-out. If it held its place, N silent hosts among M would cost
N / width time-outs, and the hosts that answer would wait for them.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_current = threading.local()


class Places:
    """`width` places: a thread holds one while it works, and none while it waits."""

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self._free = threading.BoundedSemaphore(self.width)
        self._waits: dict[int, float] = {}  # thread: since when

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold a place; within, this thread's `released_place` gives it to another.

        Threads that hold places of several kinds take them in the same order.
        """
        outer: tuple[Places, ...] = getattr(_current, "places", ())
        with self._free:
            _current.places = (*outer, self)
            try:
                yield
            finally:
                _current.places = outer

    @contextmanager
    def released(self) -> Iterator[None]:
        """Let another thread have the place of this one, which takes one again at the end."""
        thread = threading.get_ident()
        self._waits[thread] = time.monotonic()
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()
            del self._waits[thread]

    def count_long_waits(self, age_s: float) -> int:
        """Return how many threads have waited for at least `age_s`."""
        since = time.monotonic() - age_s
        return sum(began <= since for began in tuple(self._waits.values()))


@contextmanager
def released_place() -> Iterator[None]:
    """Give this thread's places to others while it waits for a host; no place is held: nothing happens."""
    places: tuple[Places, ...] = getattr(_current, "places", ())
    if not places:
        yield
        return
    _current.places = ()  # a wait within this wait has no place to give
    try:
        with ExitStack() as waiting:
            for kind in reversed(places):  # taken again in the order in which they are held
                waiting.enter_context(kind.released())
            yield
    finally:
        _current.places = places
