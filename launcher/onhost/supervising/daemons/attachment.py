"""Whether somebody needs to follow this run, and whether somebody does."""

from __future__ import annotations

from ..client import STOP_GRACE_S, Wish, client_silent_s, is_detached
from .run import Run


class Attachment:
    """An attached run ends when its client stays away; `grace_s` is None once nobody needs to follow."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.grace_s: float | None = run.spec.get("grace_s")

    def look(self) -> Wish | None:
        """Return the wish to end a run that nobody follows."""
        if self.grace_s is None:
            return None
        if is_detached(self._run.dir):
            self.grace_s = None
        elif (client_silent_s(self._run.dir) or 0.0) > self.grace_s:
            return Wish("nobody has followed this attached run for %g s" % self.grace_s, STOP_GRACE_S)
        return None
