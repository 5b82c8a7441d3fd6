"""When a client waits for hosts no longer: interrupted, or of a run that continues without it."""

import time
from collections.abc import Collection

from launcher.follow.awake_clock import AwakeClock
from launcher.follow.node_client import NodeClient
from launcher.follow.run_state import RunState

LEAVE_AFTER_S = 2.0  # after the second Ctrl-C: for the word to arrive, and hosts to say that all ended
_FAREWELL_S = 5.0
WHY = "left at the second Ctrl-C, before it reported the end"


class StopDeadline:
    """Counts what a person asks for: the first Ctrl-C stops a run, the second kills it and leaves."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._leave_at = float("inf")

    @property
    def pressed(self) -> bool:
        """Whether the second has come."""
        return self._state.interrupts > 1

    def leaves(self, now: float) -> bool:
        """Return whether to leave now."""
        if not self.pressed:
            return False
        self._leave_at = min(self._leave_at, now + LEAVE_AFTER_S)
        return self._state.interrupts > 2 or self._state.all_ranks_ended or now >= self._leave_at

    def give_up_hosts(self) -> None:
        """Note the hosts of which more was to come; they end the run themselves, as ordered."""
        if self.pressed:
            for host in self._state.nodes.open_hosts:
                self._state.nodes.give_up(host, WHY)


class ClientTimeout:
    """Measures, awake, for how long no host has answered. As long as one does, the others are waited for."""

    def __init__(self, state: RunState, timeout_s: float, awake: AwakeClock) -> None:
        self._state = state
        self._timeout_s = timeout_s
        self._awake = awake
        self._since: float | None = None

    def is_over(self) -> bool:
        """Return whether every host that is still followed has been silent for too long."""
        hosts = set(self._state.nodes.open_hosts)
        if not hosts or not hosts <= self._state.nodes.disconnected:
            self._since = None
            return False
        now = self._awake.read()
        self._since = now if self._since is None else self._since
        return now - self._since > self._timeout_s


def leave_hosts(clients: Collection[NodeClient]) -> None:
    """Follow no more, and wait until that is sent; a host that is not reached just now is not waited for."""
    for client in clients:
        client.close()
    deadline = time.monotonic() + _FAREWELL_S
    for client in clients:
        if client.is_connected:
            client.join(max(0.0, deadline - time.monotonic()))
