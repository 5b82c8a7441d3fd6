"""Where the last of several runs starts that were appended to one log. Pure."""

import re
from collections.abc import Sequence
from itertools import pairwise

from preflight.diagnosis.lines import Line
from preflight.diagnosis.signature_matcher import shape

_JOB = re.compile(r"slurmstepd: error: \*{3} (?:JOB|STEP) (\d{1,12})\b")
_NOHUP = "nohup: ignoring input"
_SHORTEST_RUN = 15
_SHORTEST_LINE = 8


def last_start(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    """Return the `order` of the last run's first line, 0 for a log of one run.

    A run that came after a failed one starts as the first did: with the same two lines, but for their numbers. Where
    ranks are seen, and where those lines came twice before anything failed, they may be those of another rank.
    """
    if not failing or lines[0].source:
        return 0
    start = max(_after_other_jobs(lines), _after_nohup(lines, failing))
    if len(lines) > _SHORTEST_RUN and not any(line.rank is not None for line in lines):
        start = max(start, _started_alike(lines, failing))
    return start if len(lines) - start >= _SHORTEST_RUN else 0


def _after_other_jobs(lines: Sequence[Line]) -> int:
    """Return the place behind the end of the last Slurm job but one."""
    ends = [(match[1], line.order) for line in lines if (match := _JOB.search(line.text))]
    return max((order + 1 for (job, order), (later, _) in pairwise(ends) if job != later), default=0)


def _after_nohup(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    starts = [line.order for line in lines if line.text.startswith(_NOHUP)]
    return max((order for order in starts if order > failing[0].order), default=0)


def _started_alike(lines: Sequence[Line], failing: Sequence[Line]) -> int:
    first, second = (shape(line.text) for line in lines[:2])
    if min(len(first), len(second)) < _SHORTEST_LINE:
        return 0
    starts = [
        line.order
        for line, following in pairwise(lines)
        if line.text[:4] == lines[0].text[:4]
        and shape(line.text) == first
        and shape(following.text) == second
    ]
    if len([order for order in starts if order < failing[0].order]) != 1:
        return 0
    found = 0
    for order in starts[1:]:
        ended = any(found <= line.order < order for line in failing)
        found = order if ended and order - found >= _SHORTEST_RUN else found
    return found
