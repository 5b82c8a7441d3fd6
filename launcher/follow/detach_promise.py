"""When hosts get the order that the run needs no client: as soon as all of its nodes have started.

Until then a client that vanishes leaves half a run behind, which its hosts end by themselves.
"""

from launcher.follow.detach_policy import RETRY_S
from launcher.follow.run_state import RunState


class DetachPromise:
    """Says when to ask every host to continue without us; asked again while one has not promised it."""

    def __init__(self, watch: RunState) -> None:
        self._watch = watch
        self._asked = float("-inf")

    def due(self, now: float) -> bool:
        """Return whether to ask now."""
        watch = self._watch
        if (
            watch.stopping
            or watch.nodes.refused
            or watch.nodes.lost
            or len(watch.nodes.run_dirs) < len(watch.hosts)
        ):
            return False
        if watch.nodes.detached.issuperset(watch.open_hosts) or now - self._asked < RETRY_S:
            return False
        self._asked = now
        return True
