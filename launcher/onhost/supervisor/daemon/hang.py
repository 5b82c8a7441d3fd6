"""Response to a hung run: dump every rank's stack, then end the run.

A run on one host is judged by its supervisor. One on several hosts is judged by its client, which knows
whether other hosts are active; without a client each host judges its own ranks.
"""

import time
from typing import Any

from ..client_files import StopRequest, count_silent_seconds
from ..end_causes import HANG
from ..run_dir import STACKS
from .sidecar import Sidecar
from .supervised_run import SupervisedRun

STACKS_WAIT_S = 60.0  # after this long, end the run without stack traces
CLIENT_GONE_S = 30.0  # a client unheard for this long no longer decides
FAILURE_GRACE_S = 3.0  # from SIGTERM to SIGKILL after a rank has failed: its peers hang in a collective


class HangHandler:
    """Handler of the gauge's idleness reports, which dumps the stacks before the run ends."""

    def __init__(self, run: SupervisedRun) -> None:
        self._run = run
        self._quiet_s = 0.0  # seconds without any activity, once over the limit
        self._until = 0.0  # when to stop waiting for the stacks; 0: no dump in progress
        self._then = StopRequest("", 0.0)
        self.dumper = Sidecar(run, STACKS, "write the stacks of the ranks")

    @property
    def in_progress(self) -> bool:
        """Whether the run hangs, or its stacks are being dumped."""
        return bool(self._until or self._quiet_s)

    def on_event(self, event: dict[str, Any]) -> None:
        """Update the state from an event of the gauge."""
        name = event.get("event")
        if name in ("idle", "active"):
            limit = event.get("timeout_s")
            over = name == "idle" and limit and float(event["seconds"]) >= float(limit)
            self._quiet_s = float(event["seconds"]) if over else 0.0

    def check(self, *, stopping: bool) -> StopRequest | None:
        """Check a run that is not ending yet; return the request to end it once its stacks are dumped."""
        if self._until:
            if not self.dumper.pid or time.monotonic() > self._until:
                self.dumper.kill()
                self._until = 0.0
                return self._then
        elif self._quiet_s and not stopping and self._decides_alone():
            words = "hung: no output, no optimizer step, no use of GPU or CPU for %.0f s" % self._quiet_s
            self.begin(StopRequest(words, FAILURE_GRACE_S, HANG))
        return None

    def begin(self, then: StopRequest) -> None:
        """Report the hang and start the stack dump, unless one is in progress."""
        if self._until:
            return
        self._run.emit("hung", why=then.why, seconds=self._quiet_s, requested=then.requested)
        self._then = then
        self._until = time.monotonic() + STACKS_WAIT_S
        if self.dumper.is_there():
            self.dumper.start(0)

    def _decides_alone(self) -> bool:
        one_host = self._run.spec.get("nodes", 1) == 1
        return bool(one_host or (count_silent_seconds(self._run.dir) or 0.0) > CLIENT_GONE_S)
