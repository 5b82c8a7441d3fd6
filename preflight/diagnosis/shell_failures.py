"""What a batch script said of a command of its own, where a scheduler ended the job later: the script outlived it. Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace

from preflight.diagnosis.candidate import Candidate
from preflight.diagnosis.signatures.table import CausalDepth

_OF_A_SHELL = re.compile(r"^\S{1,300}: line \d{1,6}: ")
_ENDED_BY_SCHEDULER = re.compile(r"^slurmstepd\S{0,80}: error: \*{3} (?:JOB|STEP) ")


def behind_schedulers_end(found: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates, of which those count as victims that only name a command of a script which ran until it was ended."""
    ends = [each.first.order for each in found if _ENDED_BY_SCHEDULER.match(each.first.text)]
    return [
        _aside(each)
        if _OF_A_SHELL.match(each.first.text) and any(order > each.first.order for order in ends)
        else each
        for each in found
    ]


def _aside(candidate: Candidate) -> Candidate:
    cause = replace(candidate.cause, confidence="possible")
    return replace(candidate, cause=cause, depth=CausalDepth.VICTIM)
