"""A run in which nothing lives any more: where its ranks stand is written down, then it ends.

A run on one host is judged here. One on several is judged by its client, who knows whether other hosts live;
without a client each host goes by its own ranks.
"""

from __future__ import annotations

import time
from typing import Any

from ..client_files import StopRequest, seconds_since_heartbeat
from ..run_dir import STACKS
from .run_state import SupervisedRun
from .sidecar import Sidecar

STACKS_WAIT_S = 60.0  # after this a run that is to end with its stacks ends without them
CLIENT_GONE_S = 30.0  # unheard for so long, a client decides nothing any more
FAILURE_GRACE_S = 3.0  # from SIGTERM to SIGKILL after a rank has failed: its peers hang in a collective


class HangHandler:
    """Hears the gauge say that nothing shows life, and has the stacks written before the end."""

    def __init__(self, run: SupervisedRun) -> None:
        self._run = run
        self._quiet_s = 0.0  # for how long nothing has shown life, once that is longer than it may be
        self._until = 0.0  # when the stacks are waited for no longer; 0: they are not being written
        self._then = StopRequest("", 0.0)
        self.dumper = Sidecar(run, STACKS, "write the stacks of the ranks")

    def on_event(self, event: dict[str, Any]) -> None:
        """Learn from what the gauge has written."""
        name = event.get("event")
        if name in ("idle", "active"):
            limit = event.get("timeout_s")
            over = name == "idle" and limit and float(event["seconds"]) >= float(limit)
            self._quiet_s = float(event["seconds"]) if over else 0.0

    def check(self, *, stopping: bool) -> StopRequest | None:
        """Judge a run that is not ending yet; return the wish to end it once its stacks are written."""
        if self._until:
            if not self.dumper.pid or time.monotonic() > self._until:
                self.dumper.kill()
                self._until = 0.0
                return self._then
        elif self._quiet_s and not stopping and self._decides_alone():
            words = "hung: no output, no optimizer step, no use of GPU or CPU for %.0f s" % self._quiet_s
            self.begin(StopRequest(words, FAILURE_GRACE_S))
        return None

    def begin(self, then: StopRequest) -> None:
        """Say that the run hangs and have every rank's stacks written down, unless that is being done."""
        if self._until:
            return
        self._run.emit("hung", why=then.why, seconds=self._quiet_s, requested=then.requested)
        self._then = then
        self._until = time.monotonic() + STACKS_WAIT_S
        if self.dumper.is_there():
            self.dumper.start(0)

    def _decides_alone(self) -> bool:
        one_host = self._run.spec.get("nodes", 1) == 1
        return bool(one_host or (seconds_since_heartbeat(self._run.dir) or 0.0) > CLIENT_GONE_S)
