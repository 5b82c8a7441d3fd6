"""Since when a run has made no step: said only where steps came faster before. Pure."""

from collections import deque
from collections.abc import Hashable

QUIET_S = 20.0
FIRST_QUIET_S = 60.0
"""As long as no two steps were seen: how long one takes is not known yet."""
_GAPS = 20
_FACTOR = 2.0
"""A pause is worth a word when it is this many times the longest of the last ones."""


class StepAge:
    """Notes when steps come, by whatever shows them: a log, the guard."""

    def __init__(self) -> None:
        self._seen: Hashable = None
        self._at: float | None = None
        self._gaps: deque[float] = deque(maxlen=_GAPS)

    def update(self, now: float, seen: Hashable | None) -> float | None:
        """Take what shows the step now, None before the first; return how long it is ago if that is long."""
        if seen is None:
            return None
        if seen != self._seen or self._at is None:
            if self._at is not None:
                self._gaps.append(now - self._at)
            self._seen, self._at = seen, now
            return None
        limit_s = max(QUIET_S, _FACTOR * max(self._gaps)) if self._gaps else FIRST_QUIET_S
        age_s = now - self._at
        return age_s if age_s > limit_s else None
