"""When a detached run may be left: once its ranks are as planned and every host has promised to go on."""

from typing import Literal, TypeAlias

from launcher.running.watch import Watch

Step: TypeAlias = Literal["wait", "detach", "leave"]

VERIFY_S = 120.0
"""A script may import for minutes before it sets up its world; then we leave, and say what was not seen."""
QUIET_S = 20.0
"""Ranks that all run and set up neither torch.distributed nor accelerate for so long may never do so."""
PROMISE_S = 30.0


class Departure:
    """Decides when to go. Until every host has promised, the run is attached, and ends if we die."""

    def __init__(self, watch: Watch, now: float, *, quiet_s: float = QUIET_S) -> None:
        self._watch = watch
        self._quiet_s = quiet_s
        self._began = now
        self._introduced: float | None = None
        self._asked: float | None = None

    def step(self, now: float) -> Step:
        """Return what to do now; "detach" comes once."""
        if self._asked is not None:
            promised = self._watch.detached.issuperset(self._watch.hosts)
            return "leave" if promised or now - self._asked > PROMISE_S else "wait"
        if self._watch.stopping or self._watch.refused or self._watch.lost:
            return "wait"  # it is ending: that is followed to its end
        verification = self._watch.verification
        if verification.introduced and self._introduced is None:
            self._introduced = now
        quiet = self._introduced is not None and now - self._introduced > self._quiet_s
        if not (verification.placed or quiet or now - self._began > VERIFY_S):
            return "wait"
        self._asked = now
        return "detach"
