"""Changes of a run directory and the end of a run's processes, as the kernel reports them to a follower."""

import contextlib
import os
from typing import Any

from ..inotify import CREATE, DELETE, DELETE_SELF, MODIFY, MOVE_SELF, MOVED_TO, OVERFLOW, Inotify
from ..run_dir import STATE
from ._logs import LINES

DELETIONS = DELETE | DELETE_SELF | MOVE_SELF | OVERFLOW


class RunWatch:
    """Descriptors that are readable when there may be something new.

    `fds` is empty where only polls show that: the kernel or its limits refuse to watch, a process has ended,
    a file was deleted.
    """

    def __init__(self, run_dir: str, state: dict[str, Any]) -> None:
        self._files = Inotify()
        self.fds = [self._files.fd]
        watched = self._files.watch(run_dir, MODIFY | CREATE | MOVED_TO | DELETIONS)
        try:
            self.fds += [os.pidfd_open(state[who][0]) for who in ("supervisor", "guardian")]
        except (OSError, AttributeError, KeyError, TypeError):  # AttributeError: Python without pidfd_open
            watched = False
        if not watched:
            self.close()

    def close(self) -> None:
        """Watch no more."""
        for fd in self.fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        self.fds = []

    def has_news(self, readable: list[int] | None = None) -> bool:
        """Return whether a follower has something to read; `readable`: these descriptors are, else unknown.

        Takes the changes, so it comes before the read: a queue of them that overflows reports nothing more.
        """
        changes = self._files.read() if self.fds else []
        if any(fd in (readable or ()) for fd in self.fds[1:]) or any(kind & DELETIONS for kind, _ in changes):
            self.close()
            return True
        return any(name in LINES or name == STATE or name.endswith(".log") for _, name in changes)
