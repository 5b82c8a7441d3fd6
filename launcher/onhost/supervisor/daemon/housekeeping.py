"""Periodic records of a live run: its heartbeat, the sizes of its logs, and fresh times on its GPU claims."""

import contextlib
import json
import os
import time

from ...event_file import append_line
from ..node import Heartbeat
from ..run_dir import HEARTBEAT, RECENT, RECENT_BEFORE, SIZES, log_sizes
from .supervised_run import SupervisedRun

SIZES_EVERY_S = 30.0  # resolution of `logs --since 2h`
RECENT_EVERY_S = 1.0  # and of `--since 5s`
RECENT_LINES = 300
REFRESH_S = 3600.0  # systemd-tmpfiles removes files untouched for days


class Housekeeping:
    """Timers of the periodic records."""

    def __init__(self, run: SupervisedRun, claims: dict[str, int]) -> None:
        self._run = run
        self._claims = claims
        self._heartbeat = Heartbeat(run.path(HEARTBEAT))
        self._sizes: dict[str, int] = {}
        self._recent: dict[str, int] = {}
        self._recent_lines = 0
        self._next_sizes = self._next_recent = self._next_refresh = 0.0

    def run(self) -> None:
        """Write the records that are due."""
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
        """Record the final sizes of the logs."""
        self._note_recent()
        self._note_sizes()

    def _note_recent(self) -> None:
        """Record the sizes in a file that is rotated regularly; one former file is kept."""
        sizes = log_sizes(self._run.dir)
        if sizes == self._recent:
            return
        self._recent = sizes
        with contextlib.suppress(OSError):
            if self._recent_lines >= RECENT_LINES:
                os.replace(self._run.path(RECENT), self._run.path(RECENT_BEFORE))
                self._recent_lines = 0
            self._append(RECENT, sizes)
            self._recent_lines += 1

    def _note_sizes(self) -> None:
        sizes = log_sizes(self._run.dir)
        if sizes != self._sizes:
            self._sizes = sizes
            with contextlib.suppress(OSError):
                self._append(SIZES, sizes)

    def _append(self, name: str, sizes: dict[str, int]) -> None:
        line = json.dumps({"t": time.time(), "sizes": sizes})
        append_line(self._run.path(name), line.encode() + b"\n")
