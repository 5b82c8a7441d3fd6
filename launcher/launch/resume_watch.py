"""Whether a start continues from the checkpoint of the start before it, by the steps that both print."""

from itertools import pairwise
from pathlib import Path

from launcher.rundir.layout import read_run_metrics
from launcher.terminal.step_progress import ProgressParser


def step_to_pass(checkpoint_step: int, before: Path) -> int:
    """Return the step of a checkpoint where the start before counted steps alike, 0 where that is not known.

    Its steps lead from below that of the checkpoint to beyond. -1: they fall, so they count within epochs.
    """
    metrics = read_run_metrics(before)
    steps = [each.step for each in metrics.loss if each.step is not None] if metrics else []
    if any(one > other for one, other in pairwise(steps)):
        return -1
    return checkpoint_step if steps and steps[0] < checkpoint_step <= steps[-1] else 0


class ResumeWatch:
    """Takes what rank 0 prints; says once that it trains below the step of the checkpoint."""

    def __init__(self, step: int) -> None:
        """`step`: of the checkpoint; 0 or less: not known."""
        self._step = step
        self._progress = ProgressParser()
        self._first: int | None = None

    def feed(self, data: bytes) -> None:
        """Take output of rank 0."""
        if self._step > 0:
            self._progress.feed(0, data)

    def find_step(self, now: float) -> str:
        """Return what is wrong, "" where nothing is, or not yet: a loss and two steps show how it trains."""
        reading = self._progress.read(now) if self._step > 0 else None
        if reading is None or reading.step is None or reading.loss is None:
            return ""
        if self._first is None or reading.step == self._first:
            self._first = reading.step
            return ""
        last, self._step = self._step, 0
        if reading.step >= last:
            return ""
        return (
            f"rank 0 is at step {reading.step} again, though it was to continue from the checkpoint of step"
            f" {last}: unless it counts anew, the script has not loaded it, and may write over later ones"
            " (resume_args: under restart: gives it the path)"
        )
