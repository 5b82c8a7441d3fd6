"""Record of non-finite values, and the choice of steps whose values are checked."""

from __future__ import annotations

FIRST_SAMPLES = 3
SAMPLE_EVERY = 25


class SamplingPolicy:
    """Policy that checks some steps, and every step while something is suspicious."""

    def __init__(self, *, every_step: bool) -> None:
        self.first_bad: dict[str, int] = {}  # name of a non-finite value -> the first step
        self.suspicious = False
        self._every_step = every_step

    def should_sample(self, step: int) -> bool:
        """Return whether to check values in this step."""
        often = self._every_step or self.suspicious
        return often or step <= FIRST_SAMPLES or step % SAMPLE_EVERY == 0

    def record_bad(self, what: str, step: int) -> None:
        """Record a non-finite value with its first step."""
        self.first_bad.setdefault(what, step)

    def record_suspicion(self, what: str, step: int) -> None:
        """Record a non-finite value, and have the coming steps checked."""
        self.suspicious = True
        self.record_bad(what, step)
