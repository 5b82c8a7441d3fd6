"""Liveness of the client that follows a run, where the run needs one."""

import contextlib
import math

from ..client_files import StopRequest, count_silent_seconds, detach_run, is_detached, record_heartbeat
from ..end_causes import NO_CLIENT
from .supervised_run import SupervisedRun


class ClientLiveness:
    """Policy that ends a run whose client stays away; `timeout_s` is None once the run needs no client.

    A run that is to continue without a client (on_disconnect: continue) is detached when all of its nodes
    have started: half a run must not remain.
    """

    def __init__(self, run: SupervisedRun) -> None:
        self._run = run
        self.timeout_s: float | None = run.spec.get("disconnect_timeout_s")
        self._is_whole = run.spec.get("nodes") == 1 and run.spec.get("on_disconnect") == "continue"
        self.remaining_s = math.inf  # until the run ends, unless a client is heard

    def check(self) -> StopRequest | None:
        """Return the request to end a run that has lost its client, None while it has one or needs none."""
        if self.timeout_s is None:
            return None
        if self._is_whole:  # all of its nodes have started
            with contextlib.suppress(OSError):
                detach_run(self._run.dir)
        if is_detached(self._run.dir):
            self.timeout_s, self.remaining_s = None, math.inf
            return None
        silent_s = count_silent_seconds(self._run.dir)
        if silent_s is None:  # deleted, as by a script that clears a directory: it counts from now on
            record_heartbeat(self._run.dir)
        self.remaining_s = self.timeout_s - (silent_s or 0.0)
        if self.remaining_s >= 0:
            return None
        why = "no client has followed this attached run for %g s"
        if self._run.spec.get("on_disconnect") == "continue":
            why = "its client was gone for %g s before all nodes had started"
        return StopRequest(why % self.timeout_s, self._run.grace_s, NO_CLIENT)
