"""Wait of the supervisor for the end of a child or rank, a SIGTERM, changed files, or its next poll."""

import contextlib
import os
import select
import signal
import time

from ...event_file import EVENTS
from ..inotify import DELETE, DELETE_SELF, MODIFY, MOVE_SELF, Inotify

FILES_EVERY_S = 0.1  # changed files wake it no more often: a script may write events without end


class Wakeup:
    """Wake-up source for SIGCHLD, SIGTERM, readable descriptors, and new events or deletions of the run.

    `hears_files` is False where only polls see the last two: the kernel or its limits refuse to watch.
    """

    def __init__(self, run_dir: str) -> None:
        self._is_requested = False
        self._wake, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._hear_sigterm)
        self._poller = select.poll()
        self._poller.register(self._wake, select.POLLIN)
        self._run_dir, self._events = run_dir, os.path.join(run_dir, EVENTS)
        self._files = Inotify()
        self._files_at = 0.0  # changed files wake it from this time on
        self.watch_files()

    def watch_files(self) -> None:
        """Watch the run directory, which may be a restored one."""
        directory = self._files.watch(self._run_dir, DELETE | DELETE_SELF | MOVE_SELF)
        self.hears_files = directory and self._files.watch(self._events, MODIFY | MOVE_SELF)

    def wait(self, seconds: float, *, for_files: bool) -> None:
        """Wait for the next wake-up, at most this many seconds."""
        until = time.monotonic() + seconds
        if not for_files:
            self._poll(until)
        elif not self._poll(min(until, self._files_at)):
            self._poller.register(self._files.fd, select.POLLIN)
            self._poll(until)
            self._poller.unregister(self._files.fd)
            if self._files.read():
                self._files_at = time.monotonic() + FILES_EVERY_S
        with contextlib.suppress(OSError):
            os.read(self._wake, 4096)

    def _poll(self, until: float) -> bool:
        """Return whether a descriptor was readable before this time."""
        left_s = until - time.monotonic()
        return left_s > 0 and bool(self._poller.poll(1000 * left_s))

    def add_fd(self, fd: int) -> None:
        """Wake up when a descriptor is readable. Raises OSError."""
        self._poller.register(fd, select.POLLIN)

    def remove_fd(self, fd: int) -> None:
        """Stop watching a descriptor."""
        self._poller.unregister(fd)

    def pop_sigterm(self) -> bool:
        """Return whether SIGTERM has arrived since the last call."""
        was_requested, self._is_requested = self._is_requested, False
        return was_requested

    def _hear_sigterm(self, *_: object) -> None:
        self._is_requested = True  # handled in the loop: a handler must not cut into half-done work
