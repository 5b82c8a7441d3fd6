"""Whether somebody needs to follow this run, and whether somebody does."""

from __future__ import annotations

from ..client_files import STOP_GRACE_S, StopRequest, is_detached, seconds_since_heartbeat
from .run_state import SupervisedRun


class ClientLiveness:
    """A run ends when its client stays away; `timeout_s` is None once nobody needs to follow.

    One that is to continue without a client (on_disconnect: continue) gets that order when all of its nodes
    have started: half a run must not stay.
    """

    def __init__(self, run: SupervisedRun) -> None:
        self._run = run
        self.timeout_s: float | None = run.spec.get("disconnect_timeout_s")

    def check(self) -> StopRequest | None:
        """Return the wish to end a run that nobody follows."""
        if self.timeout_s is None:
            return None
        if is_detached(self._run.dir):
            self.timeout_s = None
        elif (seconds_since_heartbeat(self._run.dir) or 0.0) > self.timeout_s:
            return StopRequest(
                self._why(self.timeout_s), float(self._run.spec.get("grace_s") or STOP_GRACE_S)
            )
        return None

    def _why(self, timeout_s: float) -> str:
        if self._run.spec.get("on_disconnect") == "continue":
            return "its client was gone for %g s before all nodes had started" % timeout_s
        return "no client has followed this attached run for %g s" % timeout_s
