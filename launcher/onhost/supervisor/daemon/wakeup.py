"""Wait of the supervisor for the end of a child or a rank, a SIGTERM, or its next poll."""

from __future__ import annotations

import contextlib
import os
import select
import signal


class Wakeup:
    """Wake-up source for SIGCHLD, SIGTERM and readable descriptors."""

    def __init__(self) -> None:
        self._is_requested = False
        self._wake, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self._hear_sigterm)
        self._poller = select.poll()
        self._poller.register(self._wake, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Wait for the next wake-up, at most this many seconds."""
        self._poller.poll(1000 * seconds)
        with contextlib.suppress(OSError):
            os.read(self._wake, 4096)

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
