"""Count of performed steps, for the gauge beside the supervisor: steps are a sign of activity."""

import os
import time

from .context import GuardContext

COUNT_EVERY_S = 1.0


class StepFile:
    """Number of steps, in a file of the run directory."""

    def __init__(self, place: GuardContext) -> None:
        self._path = os.path.join(place.run_dir, "steps-rank-%d" % place.rank)
        self._fd = -1
        self._written_at = 0.0

    def is_due(self) -> bool:
        """Return whether the last number is old enough."""
        return time.monotonic() - self._written_at >= COUNT_EVERY_S

    def write(self, steps: int) -> None:
        """Replace the number."""
        self._written_at = time.monotonic()
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.pwrite(self._fd, b"%d\n" % steps, 0)
