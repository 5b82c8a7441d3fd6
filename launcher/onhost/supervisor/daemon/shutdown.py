"""End of a run in steps: SIGTERM to the ranks, SIGTERM to everything, SIGKILL to everything."""

import os
import signal
import time

from ...run_cgroup import Cgroup
from ..client_files import StopRequest
from ..end_causes import EXIT
from ..processes import signal_all
from ..run_processes import KILL_WAIT_S, find_run_processes
from .launcher import Launcher
from .ranks import RankTable
from .sidecar import Sidecar
from .supervised_run import SupervisedRun

LAUNCHER_EXIT_S = 3.0  # how long the launcher may take to exit once its ranks are gone
RUNNING, RANKS_WARNED, RANKS_SIGNALLED, ALL_SIGNALLED, KILLED = range(5)


class Shutdown:
    """Progress of a run's end, and its next step."""

    def __init__(
        self, run: SupervisedRun, group: Cgroup | None, launcher: Launcher, ranks: RankTable, gauge: Sidecar
    ) -> None:
        self._run = run
        self._group = group
        self._launcher = launcher
        self._ranks = ranks
        self._gauge = gauge
        self._stage = RUNNING
        self._grace_until = self._stage_until = 0.0
        self._warned: dict[int, int] = {}  # ranks by pid: their start ticks
        self.why = ""
        self.cause = EXIT
        self.requested = False
        self.since: float | None = None  # wall clock at its start

    @property
    def started(self) -> bool:
        """Whether the run is ending."""
        return self._stage != RUNNING

    def start(self, request: StopRequest) -> None:
        """Start to end the run, or shorten the grace of an end in progress."""
        until = time.monotonic() + request.grace_s
        if self.started:
            self._grace_until = min(self._grace_until, until)
            if self._stage == RANKS_WARNED and request.grace_s < self._wait_s():
                self._stage_until = time.monotonic()  # the newer request is the more urgent one
            return
        self.why = request.why
        self.cause = request.cause
        self.requested = request.requested
        self.since = time.time()
        self._grace_until = self._stage_until = until
        if request.why:
            said = {"cause": request.cause, "requested": request.requested}
            self._run.emit("stopping", why=request.why, grace_s=request.grace_s, **said)
        self._run.save("stopping")
        if not self._warn(request):
            self._ask_ranks(request.grace_s)

    def _warn(self, request: StopRequest) -> bool:
        """Signal the ranks with `before_stop` if the request leaves the time; return whether it did."""
        before, wait_s = self._run.spec.get("before_stop") or {}, self._wait_s()
        if not wait_s or request.grace_s < wait_s:
            return False
        number = getattr(signal, "SIG" + before["signal"])
        first_only = before["ranks"] == "0"
        ranks = self._ranks.living.items()
        self._warned = {pid: known.ticks for pid, known in ranks if not first_only or known.rank == 0}
        if not self._warned and not first_only:
            return False
        self._stage = RANKS_WARNED
        self._stage_until = time.monotonic() + wait_s
        self._run.emit("warned", signal=before["signal"], wait_s=wait_s, ranks=len(self._warned))
        signal_all(self._warned, number)
        return True

    def _wait_s(self) -> float:
        return float((self._run.spec.get("before_stop") or {}).get("wait_s") or 0.0)

    def _ask_ranks(self, grace_s: float) -> None:
        self._stage = RANKS_SIGNALLED
        self._stage_until = self._grace_until
        # The ranks first and alone: after SIGTERM the launcher kills DataLoader workers with them, and a rank
        # that writes its last checkpoint needs those.
        if grace_s > 0:
            signal_all({pid: known.ticks for pid, known in self._ranks.living.items()}, signal.SIGTERM)

    def step(self) -> bool:
        """Take the next step; return True once nothing is left, or the remainder cannot be killed."""
        now = time.monotonic()
        if self._stage == RANKS_WARNED:
            if not self._is_saved(now):
                return False
            self._ask_ranks(self._grace_until - now)
        if self._stage == RUNNING or (self._stage == RANKS_SIGNALLED and self._ranks_have_time(now)):
            return False
        if self._stage == RANKS_SIGNALLED:
            self._stage = ALL_SIGNALLED
            self._gauge.kill()
            signal_all(self._members(), signal.SIGTERM)
            return False
        alive = self._members()
        if not alive:
            return True
        if self._stage == ALL_SIGNALLED and now >= self._grace_until:
            self._stage = KILLED
            self._stage_until = now + KILL_WAIT_S
            if self._group is not None:
                self._group.kill()
        if self._stage == KILLED:
            signal_all(alive, signal.SIGKILL)
            self._run.state["remaining_pids"] = sorted(alive) if now > self._stage_until else []
        return bool(self._run.state["remaining_pids"])

    def _is_saved(self, now: float) -> bool:
        """Return whether the ranks that got `before_stop` have ended, or used up their time.

        Where only rank 0 gets it, a node without rank 0 waits for its own ranks: these end with rank 0.
        """
        if now >= min(self._stage_until, self._grace_until):
            return True
        waited_for = self._warned.keys() & self._ranks.living.keys() if self._warned else self._ranks.living
        return not waited_for

    def _ranks_have_time(self, now: float) -> bool:
        """Return whether ranks, and then the launcher that reaps them, still have time to exit."""
        if self._ranks.living and now < self._grace_until:
            return True
        self._stage_until = min(self._stage_until, now + LAUNCHER_EXIT_S)
        about_to_end = bool(self._ranks.codes) and self._launcher.code is None
        return about_to_end and now < self._stage_until

    def _members(self) -> dict[int, int]:
        spare = {os.getpid(), self._run.guardian, self._gauge.pid}
        return find_run_processes(self._run.dir, spare, self._group)
