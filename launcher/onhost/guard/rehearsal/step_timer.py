"""Steps of a rehearsal: their count, their durations, and their end."""

import time
from typing import Any, Callable

from ..training_state import WatchedOptimizer


class StepTimer:
    """Counter and timer of the steps; `end` ends the script."""

    def __init__(self, wanted: int, end: Callable[[], None]) -> None:
        self.done = 0
        self.complete = False
        self.events: dict[str, float] = {}  # the first evaluation and save, in seconds since the start
        self.trainer_ends_them = False  # transformers' Trainer has yet to evaluate and save
        self._wanted = wanted
        self._end = end
        self._times = [time.monotonic()]

    def are_done(self) -> bool:
        """Return whether all requested steps have been taken."""
        return self.done >= self._wanted

    def count(self, seen: WatchedOptimizer) -> None:
        """Count a step, performed or skipped."""
        self.done = max(self.done, seen.tries)
        self._times.append(time.monotonic())

    def end(self) -> None:
        """End the rehearsal after its last step."""
        self.complete = True
        self._end()

    def record(self, event: str) -> None:
        """Record the first evaluation or save."""
        self.events.setdefault(event, round(time.monotonic() - self._times[0], 3))

    def count_after_first(self) -> int:
        """Return the number of steps that have ended since the first one."""
        return len(self._times) - 2

    def median(self) -> dict[str, Any]:
        """Return the seconds of each step but the first, their period, and the seconds of the first."""
        times, began = self._times, time.time() - time.monotonic()
        between = [b - a for a, b in zip(times[1:], times[2:])]  # noqa: B905, RUF007 - 3.9
        return {
            "step_s": [round(seconds, 4) for seconds in between],
            "stepping": [round(began + at, 3) for at in (times[1], times[-1])] if between else None,
            "start_s": round(times[1] - times[0], 3) if len(times) > 1 else None,
        }
