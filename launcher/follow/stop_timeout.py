"""How long a host that was asked to end its part of a run is waited for, reached or not. Pure."""

from collections.abc import Mapping
from typing import Any

from launcher.follow.awake_clock import AwakeClock
from launcher.rundir.end_state import explain_stall
from launcher.text import spell_duration

STOP_TIMEOUT_S = 20.0
"""After the grace. A host kills a supervisor that has not ended its run 10 s later
(launcher/onhost/supervisor/requests/follow.py)."""
STACKS_S = 60.0  # how long writing the stacks of the ranks may take on the host
KILLED_S = 35.0  # after that, for one that is reached: its guardian ends the rest, and names it


class StopPatience:
    """Counts from the request on, while this client is awake; the most urgent request counts."""

    def __init__(self, awake: AwakeClock) -> None:
        self._awake = awake
        self._since = self._until = self._allowed_s = float("inf")
        self._heard_at: float | None = None  # by the host's clock: its first word after the request

    def start(self, grace_s: float, *, stacks: bool) -> None:
        """Note a request to end, which takes that long."""
        now, allowed_s = self._awake.read(), grace_s + STOP_TIMEOUT_S + (STACKS_S if stacks else 0.0)
        self._since = min(self._since, now)
        if now + allowed_s < self._until:
            self._until, self._allowed_s, self._heard_at = now + allowed_s, allowed_s, None

    @property
    def is_over(self) -> bool:
        """Whether a host that is not reached is waited for no longer."""
        return self._awake.read() > self._until

    def explain_end(self, header: Mapping[str, Any]) -> str:
        """Return why a host is waited for no longer that says that its part still runs, "" while it is.

        Its own clock counts, too: its words may be old ones that a slow link brings, or a client that slept.
        """
        at, now = header["alive"], self._awake.read()
        if self._until == float("inf") or not isinstance(at, int | float):
            return ""
        self._heard_at = at if self._heard_at is None else self._heard_at
        if at - self._heard_at <= self._allowed_s + KILLED_S or now <= self._until + KILLED_S:
            return ""
        why = f"has not ended {spell_duration(now - self._since)} after it was asked to"
        return f"{why}; {explain_stall(stall)}" if (stall := header.get("stall")) else why
