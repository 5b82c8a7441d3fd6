"""The end of a run, step by step: its ranks are asked, then everything is, then everything is killed."""

from __future__ import annotations

import os
import signal
import time

from ..cgroup_loader import CgroupLike
from ..client_files import StopRequest
from ..processes import signal_all
from ..run_processes import KILL_WAIT_S, members
from .launcher import Launcher
from .ranks import RankTable
from .run_state import SupervisedRun
from .sidecar import Sidecar

LAUNCHER_EXIT_S = 3.0  # how long the launcher may take to end by itself once its ranks are gone
RUNNING, RANKS_ASKED, ALL_ASKED, KILLED = range(4)


class Shutdown:
    """How far the end of this run has come, and what comes next."""

    def __init__(
        self,
        run: SupervisedRun,
        group: CgroupLike | None,
        launcher: Launcher,
        ranks: RankTable,
        gauge: Sidecar,
    ) -> None:
        self._run = run
        self._group = group
        self._launcher = launcher
        self._ranks = ranks
        self._gauge = gauge
        self._stage = RUNNING
        self._grace_until = self._stage_until = 0.0
        self.why = ""
        self.asked = False
        self.since: float | None = None  # the wall clock's time when it began

    @property
    def begun(self) -> bool:
        """Whether the run is ending."""
        return self._stage != RUNNING

    def begin(self, wish: StopRequest) -> None:
        """Begin to end the run, or shorten the grace of an end that has begun."""
        until = time.monotonic() + wish.grace_s
        if self.begun:
            self._grace_until = min(self._grace_until, until)
            return
        self._stage = RANKS_ASKED
        self.why = wish.why
        self.asked = wish.asked
        self.since = time.time()
        self._grace_until = self._stage_until = until
        if wish.why:
            self._run.tell("stopping", why=wish.why, grace_s=wish.grace_s, requested=wish.asked)
        self._run.save("stopping")
        # The ranks first and alone: a launcher that is asked kills DataLoader workers with them, and a rank
        # that wants to write its last checkpoint needs those.
        if wish.grace_s > 0:
            signal_all({pid: known.ticks for pid, known in self._ranks.living.items()}, signal.SIGTERM)

    def advance(self) -> bool:
        """Take the end one step further; return True once nothing is left, or what is left does not go."""
        now = time.monotonic()
        if self._stage == RUNNING or (self._stage == RANKS_ASKED and self._ranks_have_time(now)):
            return False
        if self._stage == RANKS_ASKED:
            self._stage = ALL_ASKED
            self._gauge.kill()
            signal_all(self._members(), signal.SIGTERM)
            return False
        alive = self._members()
        if not alive:
            return True
        if self._stage == ALL_ASKED and now >= self._grace_until:
            self._stage = KILLED
            self._stage_until = now + KILL_WAIT_S
            if self._group is not None:
                self._group.kill()
        if self._stage == KILLED:
            signal_all(alive, signal.SIGKILL)
            self._run.state["remaining_pids"] = sorted(alive) if now > self._stage_until else []
        return bool(self._run.state["remaining_pids"])

    def _ranks_have_time(self, now: float) -> bool:
        """Return whether ranks may still end as they like, and then the launcher, having seen that."""
        if self._ranks.living and now < self._grace_until:
            return True
        self._stage_until = min(self._stage_until, now + LAUNCHER_EXIT_S)
        about_to_end = bool(self._ranks.codes) and self._launcher.code is None
        return about_to_end and now < self._stage_until

    def _members(self) -> dict[int, int]:
        spare = {os.getpid(), self._run.guardian, self._gauge.pid}
        return members(self._run.dir, spare, self._group)
