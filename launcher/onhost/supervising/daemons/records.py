"""What is noted while a run goes on: that it lives, how long its logs are, that its claims are in use."""

from __future__ import annotations

import contextlib
import os
import time

from ..files import append_line
from ..node import Heartbeat
from ..rundir import HEARTBEAT, SIZES, log_sizes
from .run import Run

SIZES_EVERY_S = 30.0  # how exactly `logs --since 10m` finds its place
REFRESH_S = 3600.0  # systemd-tmpfiles removes what nobody has touched for days


class Records:
    """Kept every now and then."""

    def __init__(self, run: Run, claims: dict[str, int]) -> None:
        self._run = run
        self._claims = claims
        self._heartbeat = Heartbeat(run.path(HEARTBEAT))
        self._sizes: dict[str, int] = {}
        self._next_sizes = self._next_refresh = 0.0

    def keep(self) -> None:
        """Note what is due."""
        self._heartbeat.beat()
        now = time.monotonic()
        if now >= self._next_sizes:
            self._next_sizes = now + SIZES_EVERY_S
            self._note_sizes()
        if now >= self._next_refresh:
            self._next_refresh = now + REFRESH_S
            for fd in self._claims.values():
                with contextlib.suppress(OSError):
                    os.utime(fd)

    def _note_sizes(self) -> None:
        sizes = log_sizes(self._run.dir)
        if sizes != self._sizes:
            self._sizes = sizes
            with contextlib.suppress(OSError):
                append_line(self._run.path(SIZES), {"t": time.time(), "sizes": sizes})
