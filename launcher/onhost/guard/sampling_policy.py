"""What was seen that is not finite, and so at which steps values are looked at."""

from __future__ import annotations

FIRST_SAMPLES = 3
SAMPLE_EVERY = 25


class SamplingPolicy:
    """Remembers what was not finite; while something is suspicious, every step is looked at."""

    def __init__(self, *, every_step: bool) -> None:
        self.first_bad: dict[str, int] = {}  # what was not finite -> the first step
        self.suspicious = False
        self._every_step = every_step

    def should_sample(self, step: int) -> bool:
        """Return whether values are to be looked at in this step."""
        often = self._every_step or self.suspicious
        return often or step <= FIRST_SAMPLES or step % SAMPLE_EVERY == 0

    def record_bad(self, what: str, step: int) -> None:
        """Remember what was not finite, by its first step."""
        self.first_bad.setdefault(what, step)

    def record_suspicion(self, what: str, step: int) -> None:
        """Remember it, and have the coming steps looked at."""
        self.suspicious = True
        self.record_bad(what, step)
