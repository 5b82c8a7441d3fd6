"""Places of hosts that are worked on side by side: who only waits for an answer gives the place to another.

A host that is silent costs its whole time-out. If it held its place, N silent hosts among M would cost
N / width time-outs, and the hosts that answer would wait for them. So a wait that is long makes room for
further hosts. What is long, the answers of others say: where all are slow because they share what is slow
(this machine, a jump host, a file server), more of them at once would make each slower still.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from preflight.frozen import dataclass

PATIENCE_S = 0.5  # the shortest long wait; an answer from a host that lives comes sooner as a rule
_SLOWER = 2  # a wait is long that lasts so many times as long as answers of its kind do
_REMEMBERED = 64  # answers that their mean is of, more or less

_current = threading.local()


@dataclass(frozen=True, slots=True)
class Awaited:
    """A kind of answer. Until the first of it has come, a wait of `patience` times PATIENCE_S is long."""

    name: str
    patience: float = 1.0


CONNECTION = Awaited("a connection")
GREETING = Awaited("the first words of a host")
KEYS = Awaited("an exchange of keys")
LOGIN = Awaited("an answer to a login")
SESSION = Awaited("a session")
PROGRAM = Awaited("an answer of a program", 6.0)  # a host starts a shell, an interpreter, looks


class Places:
    """`width` places: a thread holds one while it works, and none while it waits."""

    def __init__(self, width: int) -> None:
        self.width = max(1, width)
        self._free = threading.BoundedSemaphore(self.width)
        self._waits: dict[int, float] = {}  # thread: from when on its wait is a long one
        self._answers: dict[Awaited, tuple[int, float]] = {}  # how many came, and how long they take
        self._lock = threading.Lock()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold a place, which `release_place` lends; several kinds are taken in the same order."""
        outer: tuple[Places, ...] = getattr(_current, "places", ())
        with self._free:
            _current.places = (*outer, self)
            try:
                yield
            finally:
                _current.places = outer

    @contextmanager
    def lend(self, long_from: float) -> Iterator[None]:
        """Let another thread have the place of this one, which takes one again at the end."""
        thread = threading.get_ident()
        self._waits[thread] = long_from
        self._free.release()
        try:
            yield
        finally:
            self._free.acquire()
            del self._waits[thread]

    def count_long_waits(self) -> int:
        """Return how many threads are in a long wait."""
        now = time.monotonic()
        return sum(long_from <= now for long_from in tuple(self._waits.values()))

    def patience_s(self, awaited: Awaited) -> float:
        """Return after how long a wait is a long one."""
        count, mean_s = self._answers.get(awaited, (0, 0.0))
        return max(PATIENCE_S, _SLOWER * mean_s) if count else PATIENCE_S * awaited.patience

    def note_answer(self, awaited: Awaited, took_s: float) -> None:
        """Remember how long an answer took."""
        with self._lock:
            count, mean_s = self._answers.get(awaited, (0, 0.0))
            count = min(count + 1, _REMEMBERED)
            self._answers[awaited] = count, mean_s + (took_s - mean_s) / count


class Wait:
    """One wait of this thread for a host."""

    def __init__(self, awaited: Awaited, places: tuple[Places, ...]) -> None:
        self._awaited = awaited
        self._places = places
        self._began = time.monotonic()

    @property
    def long_from(self) -> float:
        """From when on, by the monotonic clock, it is long."""
        return self._began + self._places[-1].patience_s(self._awaited)

    def note_answer(self) -> None:
        """Say that the host has answered: not that the wait is over."""
        took_s = time.monotonic() - self._began
        for kind in self._places:
            kind.note_answer(self._awaited, took_s)


@contextmanager
def release_place(awaited: Awaited = CONNECTION) -> Iterator[Wait]:
    """Give this thread's places to others while it waits for a host; no place is held: nothing happens."""
    places: tuple[Places, ...] = getattr(_current, "places", ())
    wait = Wait(awaited, places)
    if not places:
        yield wait
        return
    _current.places = ()  # a wait within this wait has no place to give
    try:
        with _released(wait, places):
            yield wait
    finally:
        _current.places = places


def await_in_place(event: threading.Event, limit_s: float, awaited: Awaited) -> bool:
    """Return whether an event came that local work may delay: another gets the place after a while."""
    places: tuple[Places, ...] = getattr(_current, "places", ())
    if not places:
        return event.wait(limit_s)
    wait = Wait(awaited, places)
    deadline = time.monotonic() + limit_s
    if event.wait(max(0.0, min(wait.long_from, deadline) - time.monotonic())):
        wait.note_answer()
        return True
    with _released(wait, places):
        came = event.wait(max(0.0, deadline - time.monotonic()))
        if came:
            wait.note_answer()
    return came


@contextmanager
def _released(wait: Wait, places: tuple[Places, ...]) -> Iterator[None]:
    with ExitStack() as waiting:
        for kind in reversed(places):  # taken again in the order in which they are held
            waiting.enter_context(kind.lend(wait.long_from))
        yield
