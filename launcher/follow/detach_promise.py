"""When hosts get the order that the run needs no client: as soon as all of its nodes have started.

Until then a client that vanishes leaves half a run behind, which its hosts end by themselves.
"""

from launcher.follow.detach_policy import RETRY_S
from launcher.follow.run_state import RunState


class DetachPromise:
    """Says when to ask every host to continue without us; asked again while one has not promised it."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._asked_at = float("-inf")

    def due(self, now: float) -> bool:
        """Return whether to ask now."""
        state = self._state
        if (
            state.stopping
            or state.nodes.refused
            or state.nodes.lost
            or len(state.nodes.run_dirs) < len(state.hosts)
        ):
            return False
        if state.nodes.detached.issuperset(state.open_hosts) or now - self._asked_at < RETRY_S:
            return False
        self._asked_at = now
        return True
