"""Duration of a run's idleness, and the times at which to report it."""

from typing import Any

QUIET_S = 600.0
REPEAT_S = 15.0


class IdleTimer:
    """Timer of idleness that decides when to emit an event."""

    def __init__(self, timeout_s: float | None, warn_s: float) -> None:
        self.timeout_s = timeout_s
        self.warn_s = warn_s
        self.seconds = 0.0
        self.next_s = self._first()
        self.last: float | None = None

    def _first(self) -> float:
        return min(self.warn_s, self.timeout_s or self.warn_s)

    def update(self, now: float, *, life: bool, longest_s: float) -> dict[str, Any] | None:
        """Process one sample; return the event to emit, if any.

        Between two samples at most `longest_s` count: a suspended machine was not idle.
        """
        passed = min(now - self.last, longest_s) if self.last is not None else 0.0
        self.last = now
        if life:
            was_reported = self.seconds >= self._first()
            self.seconds, self.next_s = 0.0, self._first()
            return {"event": "active"} if was_reported else None
        self.seconds += passed
        if self.seconds < self.next_s:
            return None
        if self.timeout_s and self.seconds >= self.timeout_s:
            self.next_s = self.seconds + REPEAT_S
        else:
            self.next_s = min(2 * self.seconds, self.timeout_s or 2 * self.seconds)
        return {"event": "idle", "seconds": round(self.seconds, 1), "timeout_s": self.timeout_s}
