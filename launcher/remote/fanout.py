"""One function over many hosts at once: a value or an error for each, in order."""

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeAlias, TypeVar

from launcher.errors import DescriptorsExhausted, GpulaunchError
from launcher.local.descriptors import is_exhausted, raise_descriptor_limit
from launcher.local.places import Places

Item = TypeVar("Item")
Value = TypeVar("Value")

Result: TypeAlias = "Value | GpulaunchError"

WIDTH = 64
"""Hosts spoken to at once: enough to hide latency, few enough for one client's sockets and threads."""
MOST_WAITS = 2048
"""Threads that may wait for silent hosts beside those at work. A thread that waits costs about 40 kB."""
_LONG_WAIT_S = 0.5
"""A wait that is worth another thread; an answer from a host that lives comes sooner as a rule."""
_GROWTH = 2
"""Threads for each one that has waited for long: if all are silent, their number doubles."""
_TURN_S = 0.05
_IDLE_TURN_S = 1.0


def fanout(
    function: Callable[[Item], Value],
    items: Iterable[Item],
    *,
    width: int = WIDTH,
    on_done: "Callable[[Item, Value | GpulaunchError], None] | None" = None,
) -> "list[Value | GpulaunchError]":
    """Call `function` on every item, at most `width` at a time, and return the results in the items' order.

    A GpulaunchError is that item's result and does not affect the others; any other exception is a bug and is
    raised by this function. An item that waits within `released_place` leaves its place to another one. An
    item for which this machine has no descriptor is tried again when another one has ended. `on_done` is
    called in the caller's thread, in the order of completion. Ctrl-C ends the wait at once: the threads are
    daemons and their connections end with the process.
    """
    todo = list(items)
    raise_descriptor_limit(2 * min(len(todo), width + MOST_WAITS))
    crew = _Crew(function, todo, width)
    results: dict[int, Value | GpulaunchError] = {}
    try:
        while len(results) < len(todo):
            crew.fill_places()
            try:
                index, result = crew.done.get(timeout=_IDLE_TURN_S if crew.pending.empty() else _TURN_S)
            except queue.Empty:
                continue
            if isinstance(result, _WorkerError):
                raise result.error
            results[index] = result
            if on_done is not None:
                on_done(todo[index], result)
    finally:
        crew.stopped.set()
    return [results[index] for index in range(len(todo))]


class _WorkerError:
    """An exception that no host is to blame for."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Crew(Generic[Item, Value]):
    """The threads of one fan-out: as many as there are places, and one for each that waits for long."""

    def __init__(self, function: Callable[[Item], Value], todo: list[Item], width: int) -> None:
        self.pending: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
        self.done: queue.SimpleQueue[tuple[int, Value | GpulaunchError | _WorkerError]] = queue.SimpleQueue()
        self.stopped = threading.Event()
        self._function = function
        self._places = Places(width)
        self._lock = threading.Lock()
        self._threads = 0
        self._tried_alone: set[int] = set()
        self._most = self._places.width  # fewer once this machine has run out of descriptors
        for numbered in enumerate(todo):
            self.pending.put(numbered)

    def fill_places(self) -> None:
        """Start threads for places that are free because others wait, as long as there are items."""
        waits = self._places.count_long_waits(_LONG_WAIT_S)
        allowed = self._most + min(_GROWTH * waits, MOST_WAITS)
        for _ in range(min(self.pending.qsize(), allowed - self._threads)):
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

    def _next(self) -> bool:
        """Carry out one item; return whether this thread continues."""
        with self._places.held():
            try:
                index, item = self.pending.get_nowait()
            except queue.Empty:
                return False
            try:
                self.done.put((index, self._function(item)))
            except GpulaunchError as error:
                if isinstance(error, DescriptorsExhausted) and self._put_back(index, item):
                    return False
                self.done.put((index, error.without_frames()))
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
                if is_exhausted(error) and self._put_back(index, item):
                    return False
                self.done.put((index, _WorkerError(error)))
        return True

    def _put_back(self, index: int, item: Item) -> bool:
        """Leave the item for a thread whose own has ended; False: this is the last and tried it alone.

        One thread fewer works from now on: as many as this machine has descriptors for.
        """
        with self._lock:
            if self._threads <= 1:
                if index in self._tried_alone:
                    return False
                self._tried_alone.add(index)
            self._most = max(1, min(self._most, self._threads) - 1)
        self.pending.put((index, item))
        return True
