"""Waits that take no thread: what an item of a fan-out waits for is noted, and it is tried again then."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar, cast

T = TypeVar("T")

Deliver: TypeAlias = Callable[[object], None]  # takes what came of a wait, an exception too, from any thread
Start: TypeAlias = Callable[[Deliver], None]

_current = threading.local()


class Deferred(BaseException):
    """The item at hand waits for what `start` starts. No Exception: only who defers items may catch it."""

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.start = start


class Deferral:
    """One item's wait: it may defer once, and finds what came of the wait when it is tried again."""

    def __init__(self, *outcome: object) -> None:
        self._outcome = outcome
        self._is_over = False

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Let `wait_without_thread` of this thread defer."""
        _current.deferral = self
        try:
            yield
        finally:
            _current.deferral = None

    def take(self, start: Start) -> tuple[object, ...]:
        """Return what came of the wait, in a tuple, which is empty where nothing more can be deferred."""
        if not self._outcome and not self._is_over:
            raise Deferred(start)
        outcome, self._outcome, self._is_over = self._outcome, (), True
        return outcome


def wait_without_thread(start: Callable[[Callable[[T | BaseException], None]], None]) -> T | None:
    """Return what `start` delivers, or raise it; None: this thread is to wait in its own way.

    `start` is called once this thread has let go of the item, which is tried again from its start on.
    """
    deferral: Deferral | None = getattr(_current, "deferral", None)
    if deferral is None:
        return None
    for outcome in deferral.take(cast("Start", start)):
        if isinstance(outcome, BaseException):
            raise outcome
        return cast("T", outcome)
    return None
