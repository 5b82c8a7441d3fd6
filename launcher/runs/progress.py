"""Step and loss as a training script prints them, from the end of rank 0's log. Pure."""

import re

from preflight.diagnosis.lines import Line
from preflight.diagnosis.series import PointReader
from preflight.frozen import dataclass

_BAR = re.compile(r"(?<![\d/.])(\d{1,15})/(\d{1,15}) \[\d+:")  # tqdm: 40/120 [00:12<00:24
_STEP = re.compile(
    r"(?<![\w.])(?:global_?)?step['\"]?\s*[:=#]?\s*(\d{1,15})(?!\d)(?:\s*(?:/|of)\s*(\d{1,15})(?!\d))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PrintedProgress:
    """The last step and loss that were printed; None: none was seen."""

    step: int | None
    steps: int | None  # in all, where the script says so
    loss: float | None


def read_progress(text: str) -> PrintedProgress:
    """Return the last of each in the text, which may start and end anywhere."""
    step = steps = None
    loss = None
    reader = PointReader()  # as reports and warnings read a loss
    for line in re.split(r"[\r\n]+", text):
        bar = _BAR.search(line) or _STEP.search(line)
        if bar is not None:
            step = int(bar[1])
            steps = int(bar[2]) if bar[2] else steps
        point = reader.point_of(Line(0, line, None))
        if point is not None and point.loss is not None:
            loss = point.loss
    return PrintedProgress(step, steps, loss)
