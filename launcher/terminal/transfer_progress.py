"""How far a transfer of files is, said now and then while it lasts."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from launcher.text import format_size

PROGRESS_S = 3.0
_LONGEST_PAUSE_S = 30.0  # a transfer of hours in a file of a cron job is read later


class TransferProgress:
    """Says how much of what is expected has gone, from a thread of its own. Threads of hosts count."""

    def __init__(self, say: Callable[[str], object], what: str, how: str) -> None:
        self._say = say
        self._what = what
        self._how = how
        self._lock = threading.Lock()
        self._wanted = 0
        self._gone = 0
        self._over = threading.Event()

    def expect(self, count: int) -> None:
        """Add bytes that are to be transferred."""
        with self._lock:
            self._wanted += count

    def add(self, count: int) -> None:
        """Add bytes that were transferred."""
        with self._lock:
            self._gone += count

    @contextmanager
    def report_progress(self) -> Iterator[Self]:
        """Report progress while the body runs."""
        thread = threading.Thread(target=self._report, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _report(self) -> None:
        pause_s = PROGRESS_S
        while not self._over.wait(pause_s):
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            with self._lock:
                gone, wanted = self._gone, max(self._gone, self._wanted)
            sizes = f"{format_size(gone)} of {format_size(wanted)}"
            amount = f"{sizes} {self._how}" if wanted else "comparing files"
            self._say(f"{self._what}: {amount}")
