"""A fact as the agent sends it: what was read, or the reason that it was not."""

import _thread
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Emit = Callable[..., None]  # emit(*path, value): one fact, or a part of one

_MOST_WIDTH = 400
MOST_LINES = 200  # of a kernel log, for each kind of line


def missing(reason: str, code: str = "error") -> Json:
    """Return an absent fact with its reason; the codes are those of preflight.facts.missing.MissingCode."""
    return {"missing": reason, "code": code}


def explain_exception(error: BaseException) -> Json:
    """Return the absent fact that an exception means."""
    if isinstance(error, PermissionError):
        return missing(str(error), "no-permission")
    if isinstance(error, FileNotFoundError):
        return missing(str(error), "not-found")
    return missing("%s: %s" % (type(error).__name__, error))


def read_fact(read: Callable[[], Any]) -> Any:
    """Return what `read` returns, or the reason it could not."""
    try:
        return read()
    except Exception as error:
        return explain_exception(error)


def with_timeout(seconds: float, read: Callable[[], Any]) -> Any:
    """Return what `read` returns, or Missing(timeout): for a call that may hang inside a probe."""
    box: list[Any] = []
    start_thread(lambda: box.append(read_fact(read))).acquire(timeout=seconds)
    return box[0] if box else missing("no answer within %g s" % seconds, "timeout")


def start_thread(work: Callable[[], object]) -> _thread.LockType:
    """Run `work` in a thread; return a lock that can be taken when it has ended.

    Raises RuntimeError where this user can have no more threads. `threading` itself would cost four probes
    3 ms each.
    """
    ended = _thread.allocate_lock()
    ended.acquire()

    def run() -> None:
        try:
            work()
        finally:
            ended.release()

    _thread.start_new_thread(run, ())
    return ended


def truncate(text: str) -> str:
    """Return text short enough for a reason or a line of a log."""
    return text if len(text) <= _MOST_WIDTH else text[: _MOST_WIDTH - 3] + "..."
