"""When a detached run may be left: once its ranks are as planned and every host has promised to continue."""

from typing import Literal, TypeAlias

from launcher.follow.run_state import RunState

DetachStep: TypeAlias = Literal["wait", "detach", "leave"]

VERIFY_S = 120.0  # imports may take minutes; then we leave, and say what was not seen
NO_WORLD_TIMEOUT_S = 20.0  # ranks without torch.distributed or accelerate for so long may stay so
LONE_RANK_TIMEOUT_S = 5.0  # a lone rank sets up no world; many a script fails at its imports
COMPARE_S = 60.0  # ranks are compared by what guards report at their first step
ACK_TIMEOUT_S = 30.0  # for a host that is reached and does not promise; a broken link is waited for
RETRY_S = 5.0  # a word that was on its way when a link broke may not have arrived


class DetachPolicy:
    """Decides when to go. Until every host has promised, the run is attached, and ends if we die."""

    def __init__(
        self, state: RunState, now: float, *, quiet_s: float = NO_WORLD_TIMEOUT_S, at_once: bool = False
    ) -> None:
        """`at_once`: as soon as all nodes have started; ranks and broken links are not waited for."""
        self._state = state
        self._at_once = at_once
        reports = state.plan.world_size > 1 or state.plan.engine == "accelerate"  # a world, or its device
        self._quiet_s = quiet_s if reports else min(quiet_s, LONE_RANK_TIMEOUT_S)
        self._began = now
        self._introduced: float | None = None
        self._placed: float | None = None
        self._asked_at: float | None = None
        self._asked_last = now

    def step(self, now: float) -> DetachStep:
        """Return what to do now; "detach" comes again where no promise follows."""
        if _is_ending(self._state):
            return "wait"  # that is followed to its end
        if self._asked_at is not None:
            return self._await_promises(now, self._asked_at)
        if self._at_once:
            return self._ask_at_once(now)
        verification = self._state.verification
        if verification.all_reported and self._introduced is None:
            self._introduced = now
        if verification.devices_verified:  # then the guards are compared, for a while
            self._placed = now if self._placed is None else self._placed
            is_done = self._state.ranks_compared or now - self._placed > COMPARE_S
        else:
            quiet = self._introduced is not None and now - self._introduced > self._quiet_s
            is_done = quiet or now - self._began > VERIFY_S
        if not is_done:
            return "wait"
        self._asked_at = self._asked_last = now
        return "detach"

    def _ask_at_once(self, now: float) -> DetachStep:
        if len(self._state.nodes.run_dirs) < len(self._state.hosts):
            return "wait"
        if self._state.nodes.detached.issuperset(self._state.nodes.open_hosts):
            return "leave"
        self._asked_at = self._asked_last = now
        return "detach"

    def _await_promises(self, now: float, asked_at: float) -> DetachStep:
        silent = set(self._state.hosts) - self._state.nodes.detached
        if not silent:
            return "leave"
        if now - asked_at > ACK_TIMEOUT_S and (self._at_once or not silent & self._state.nodes.disconnected):
            return "leave"
        if now - self._asked_last > RETRY_S:
            self._asked_last = now
            return "detach"
        return "wait"


def _is_ending(state: RunState) -> bool:
    return bool(state.stopping or state.nodes.refused or state.nodes.lost)


class DetachPromise:
    """Says when to ask every host to continue without us: as soon as all nodes have started, and again while
    one has not promised it. Until then a client that vanishes leaves half a run, which its hosts end.
    """

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._asked_at = float("-inf")

    def is_due(self, now: float) -> bool:
        """Return whether to ask now."""
        state = self._state
        if _is_ending(state) or len(state.nodes.run_dirs) < len(state.hosts):
            return False
        if state.nodes.detached.issuperset(state.nodes.open_hosts) or now - self._asked_at < RETRY_S:
            return False
        self._asked_at = now
        return True
