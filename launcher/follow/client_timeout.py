"""When a client gives up a run that continues without it: no host of it has answered for a long time."""

from launcher.follow.awake_clock import AwakeClock
from launcher.follow.run_state import RunState


class ClientTimeout:
    """Measures, awake, for how long no host has answered. As long as one does, the others are waited for."""

    def __init__(self, state: RunState, timeout_s: float, awake: AwakeClock) -> None:
        self._state = state
        self._timeout_s = timeout_s
        self._awake = awake
        self._since: float | None = None

    def is_over(self) -> bool:
        """Return whether every host that is still followed has been silent for too long."""
        hosts = set(self._state.open_hosts)
        if not hosts or not hosts <= self._state.nodes.disconnected:
            self._since = None
            return False
        now = self._awake.now()
        self._since = now if self._since is None else self._since
        return now - self._since > self._timeout_s
