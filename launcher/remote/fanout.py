"""One function over many hosts at once: a value or an error for each, in order."""

import queue
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from typing import Generic, TypeVar

from launcher.errors import DescriptorsExhausted, GpulaunchError
from launcher.local import fanout_places
from launcher.local.deferral import Deferral, Deferred
from launcher.local.descriptors import count_spare_descriptors, is_exhausted, raise_descriptor_limit
from launcher.local.fanout_places import Places

Item = TypeVar("Item")
Value = TypeVar("Value")

WIDTH = 64  # hosts spoken to at once: enough to hide latency, few enough for one client's sockets and threads
MOST_WAITS = 2048  # threads that wait for silent hosts beside those at work: about 40 kB each
_GROWTH = 2  # hosts for each one that has waited for long: if all are silent, their number doubles
_EACH_AT_WORK = 4  # descriptors that a host at work may take: its connection, files of keys
_TURN_S = 0.05
_IDLE_TURN_S = 1.0
_SLOW_S = 4.0


def fanout(
    function: Callable[[Item], Value],
    items: Iterable[Item],
    *,
    width: int = WIDTH,
    reopens: bool = False,
    on_done: "Callable[[Item, Value | GpulaunchError], None] | None" = None,
    on_interrupt: Callable[[Item], GpulaunchError] | None = None,
    on_slow: Callable[[list[Item]], None] | None = None,
) -> "list[Value | GpulaunchError]":
    """Call `function` on every item, at most `width` at a time, and return the results in the items' order.

    A GpulaunchError is that item's result and does not affect the others; any other exception is a bug and is
    raised by this function. An item that waits within `released_place` leaves its place to another one. An
    item for which this machine has no descriptor is tried again when another one has ended. `reopens`:
    `function` opens its host first, so that it may be called again once a host that is waited for without a
    thread has said something; that is done where there are more than `width` items. `on_done` is called in
    the caller's thread, in the order of completion. Ctrl-C ends the wait at once: the threads are
    daemons and their connections end with the process. It is raised, or with `on_interrupt` that gives the
    result of each item that has none. `on_slow` is called once after some seconds, with the items that have
    no result by then.
    """
    todo = list(items)
    defers = reopens and len(todo) > width
    waiting = len(todo) + _EACH_AT_WORK * width if defers else 2 * min(len(todo), width + MOST_WAITS)
    raise_descriptor_limit(waiting)
    crew = _Crew(function, todo, width, defers=defers)
    results: dict[int, Value | GpulaunchError] = {}
    slow_from = time.monotonic() + _SLOW_S
    try:
        while len(results) < len(todo):
            crew.fill_places()
            if on_slow is not None and time.monotonic() >= slow_from:
                on_slow([item for index, item in enumerate(todo) if index not in results])
                on_slow = None
            try:
                event = crew.done.get(timeout=_TURN_S if crew.has_work() else _IDLE_TURN_S)
            except queue.Empty:
                continue
            if event is None:
                continue
            index, result = event
            if isinstance(result, BaseException) and not isinstance(result, GpulaunchError):
                raise result
            results[index] = result
            if on_done is not None:
                on_done(todo[index], result)
    except KeyboardInterrupt:
        if on_interrupt is None:
            raise
        for index, item in enumerate(todo):
            results.setdefault(index, on_interrupt(item))
    finally:
        crew.stopped.set()
    return [results[index] for index in range(len(todo))]


class _Crew(Generic[Item, Value]):
    """The threads of one fan-out: as many as there are places, and one for each that is in a long wait."""

    def __init__(
        self, function: Callable[[Item], Value], todo: list[Item], width: int, *, defers: bool
    ) -> None:
        self.done: queue.SimpleQueue[tuple[int, Value | BaseException] | None]
        self.done = queue.SimpleQueue()  # None: there is something for a thread
        self.stopped = threading.Event()
        self._pending: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
        self._arrived: queue.SimpleQueue[tuple[int, Item, Deferral]] = queue.SimpleQueue()
        self._deferred: dict[int, float] = {}  # item: since when it waits without a thread
        self._long_deferred = 0
        self._counted = 0.0
        self._function = function
        self._defers = defers
        self._places = Places(width)
        self._lock = threading.Lock()
        self._threads = 0
        self._open = 0  # items that were taken and have not ended
        self._tried_alone: set[int] = set()
        self._room = self._places.width  # items that may be open
        self._most = len(todo)  # the same for good: what this machine has descriptors for
        if defers:
            spare = count_spare_descriptors() - _EACH_AT_WORK * self._places.width
            self._most = max(self._places.width, min(self._most, spare))
        for numbered in enumerate(todo):
            self._pending.put(numbered)

    def has_work(self) -> bool:
        """Whether a thread could be needed soon."""
        return not (self._pending.empty() and self._arrived.empty())

    def fill_places(self) -> None:
        """Start threads for places that are free because others wait, as long as there are items."""
        waits = self._places.count_long_waits()
        now = time.monotonic()
        if now - self._counted >= _TURN_S:  # not for each of thousands of hosts that end together
            self._counted = now
            waiting = tuple(self._deferred.values())
            self._long_deferred = sum(began <= now - fanout_places.PATIENCE_S for began in waiting)
        threads = self._places.width + min(_GROWTH * waits, MOST_WAITS)
        self._room = min(threads + _GROWTH * self._long_deferred, self._most)
        fresh = min(self._pending.qsize(), self._room - self._open)
        for _ in range(min(self._arrived.qsize() + max(0, fresh), threads - self._threads)):
            with self._lock:
                self._threads += 1
            try:
                threading.Thread(target=self._work, daemon=True).start()
            except RuntimeError:
                with self._lock:
                    self._threads -= 1
                if self._threads == 0:
                    raise
                return

    def _work(self) -> None:
        while not self.stopped.is_set() and self._next():
            pass
        with self._lock:
            self._threads -= 1

    def _take(self) -> tuple[int, Item, Deferral | None] | None:
        """Return an item whose wait is over, or a new one; None where no more may be open."""
        with suppress(queue.Empty):
            return self._arrived.get_nowait()
        with self._lock, suppress(queue.Empty):
            if self._open < self._room:
                index, item = self._pending.get_nowait()
                self._open += 1
                return index, item, Deferral() if self._defers else None
        return None

    def _next(self) -> bool:
        """Carry out one item; return whether this thread continues."""
        with self._places.hold():
            taken = self._take()
            if taken is None:
                return False
            index, item, deferral = taken
            result: Value | BaseException
            try:
                with nullcontext() if deferral is None else deferral.activate():
                    result = self._function(item)
            except Deferred as deferred:
                self._defer(index, item, deferred)
                return True
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
                is_short = isinstance(error, DescriptorsExhausted) or is_exhausted(error)
                if is_short and self._put_back(index, item):
                    return False
                result = error.without_frames() if isinstance(error, GpulaunchError) else error
            with self._lock:
                self._open -= 1
            self.done.put((index, result))
        return True

    def _defer(self, index: int, item: Item, deferred: Deferred) -> None:
        """Let the item wait without a thread."""

        def deliver(outcome: object) -> None:
            del self._deferred[index]
            self._arrived.put((index, item, Deferral(outcome)))
            self.done.put(None)

        self._deferred[index] = time.monotonic()
        try:
            deferred.start(deliver)
        except BaseException as error:  # noqa: BLE001 - it is the outcome
            deliver(error)

    def _put_back(self, index: int, item: Item) -> bool:
        """Leave the item for later, when another has ended; False: no other is open, and it was tried alone.

        One item fewer is open from now on: as many as this machine has descriptors for.
        """
        with self._lock:
            if self._open <= 1:
                if index in self._tried_alone:
                    return False
                self._tried_alone.add(index)
            self._most = max(1, min(self._most, self._open - 1))
            self._open -= 1
        self._pending.put((index, item))
        return True
