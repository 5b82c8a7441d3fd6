"""One function over many hosts at once: a value or an error for each, in order."""

import queue
import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from launcher.errors import GpulaunchError

Item = TypeVar("Item")
Value = TypeVar("Value")

Result: TypeAlias = "Value | GpulaunchError"

WIDTH = 64
"""Hosts spoken to at once: enough to hide latency, few enough for one client's sockets and threads."""


def fanout(
    function: Callable[[Item], Value],
    items: Iterable[Item],
    *,
    width: int = WIDTH,
    on_done: "Callable[[Item, Value | GpulaunchError], None] | None" = None,
) -> "list[Value | GpulaunchError]":
    """Call `function` on every item, at most `width` at a time, and return the results in the items' order.

    A GpulaunchError is that item's result and does not affect the others; any other exception is a bug and is
    raised by this function. `on_done` is called in the caller's thread, in the order of completion. Ctrl-C
    ends the wait at once: the threads are daemons and their connections end with the process.
    """
    todo = list(items)
    pending: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Value | GpulaunchError | _WorkerError]] = queue.SimpleQueue()
    stopped = threading.Event()
    for numbered in enumerate(todo):
        pending.put(numbered)
    for _ in range(min(max(1, width), len(todo))):
        threading.Thread(target=_work, args=(function, pending, done, stopped), daemon=True).start()
    results: dict[int, Value | GpulaunchError] = {}
    try:
        while len(results) < len(todo):
            index, result = done.get()
            if isinstance(result, _WorkerError):
                raise result.error
            results[index] = result
            if on_done is not None:
                on_done(todo[index], result)
    finally:
        stopped.set()
    return [results[index] for index in range(len(todo))]


class _WorkerError:
    """An exception that no host is to blame for."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _work(
    function: Callable[[Item], Value],
    pending: "queue.SimpleQueue[tuple[int, Item]]",
    done: "queue.SimpleQueue[tuple[int, Value | GpulaunchError | _WorkerError]]",
    stopped: threading.Event,
) -> None:
    while not stopped.is_set():
        try:
            index, item = pending.get_nowait()
        except queue.Empty:
            return
        try:
            done.put((index, function(item)))
        except GpulaunchError as error:
            done.put((index, error))
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            done.put((index, _WorkerError(error)))
