"""What is noted while a run continues: that it lives, how long its logs are, that its claims are in use."""

from __future__ import annotations

import contextlib
import os
import time

from ..files import append_line
from ..node import Heartbeat
from ..run_dir import HEARTBEAT, RECENT, RECENT_BEFORE, SIZES, log_sizes
from .run_state import SupervisedRun

SIZES_EVERY_S = 30.0  # how exactly `logs --since 2h` finds its place
RECENT_EVERY_S = 1.0  # and `--since 5s`
RECENT_LINES = 300
REFRESH_S = 3600.0  # systemd-tmpfiles removes what nobody has touched for days


class Housekeeping:
    """Kept every now and then."""

    def __init__(self, run: SupervisedRun, claims: dict[str, int]) -> None:
        self._run = run
        self._claims = claims
        self._heartbeat = Heartbeat(run.path(HEARTBEAT))
        self._sizes: dict[str, int] = {}
        self._recent: dict[str, int] = {}
        self._recent_lines = 0
        self._next_sizes = self._next_recent = self._next_refresh = 0.0

    def run(self) -> None:
        """Note what is due."""
        self._heartbeat.beat()
        now = time.monotonic()
        if now >= self._next_recent:
            self._next_recent = now + RECENT_EVERY_S
            self._note_recent()
        if now >= self._next_sizes:
            self._next_sizes = now + SIZES_EVERY_S
            self._note_sizes()
        if now >= self._next_refresh:
            self._next_refresh = now + REFRESH_S
            for fd in self._claims.values():
                with contextlib.suppress(OSError):
                    os.utime(fd)

    def note_end(self) -> None:
        """Note how long the logs have become: nothing is added any more."""
        self._note_recent()
        self._note_sizes()

    def _note_recent(self) -> None:
        """Note it in a file that is started anew now and then, the one before kept."""
        sizes = log_sizes(self._run.dir)
        if sizes == self._recent:
            return
        self._recent = sizes
        with contextlib.suppress(OSError):
            if self._recent_lines >= RECENT_LINES:
                os.replace(self._run.path(RECENT), self._run.path(RECENT_BEFORE))
                self._recent_lines = 0
            append_line(self._run.path(RECENT), {"t": time.time(), "sizes": sizes})
            self._recent_lines += 1

    def _note_sizes(self) -> None:
        sizes = log_sizes(self._run.dir)
        if sizes != self._sizes:
            self._sizes = sizes
            with contextlib.suppress(OSError):
                append_line(self._run.path(SIZES), {"t": time.time(), "sizes": sizes})
