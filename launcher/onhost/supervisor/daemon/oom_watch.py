"""Out-of-memory kills, by the kernel's count: a killed process cannot report its own end."""

import time

from ...run_cgroup import OomKills
from .supervised_run import SupervisedRun

EVERY_S = 1.0


class OomWatch:
    """Reporter of growth of the kernel's count, as events."""

    def __init__(self, run: SupervisedRun) -> None:
        self._run = run
        self._counter = OomKills()
        self._next = 0.0

    def check(self, *, at_once: bool = False) -> None:
        """Read the count, unless it was read a moment ago."""
        now = time.monotonic()
        if now < self._next and not at_once:
            return
        self._next = now + EVERY_S
        count = self._counter.more()
        if count:
            limit = self._counter.limit()
            self._run.emit("oom", count=count, scope=self._counter.scope, limit=limit)
