"""Source that a notebook shows around the line of a frame, with numbers and an arrow. Pure."""

import re
from collections.abc import Iterable, Sequence

from preflight.diagnosis.lines import Line

ARROW = re.compile(r"^-{1,}> ?(?P<line>\d{1,9}) ")  # shorter before longer numbers
_LISTED = re.compile(r"^(?:-{1,}> ?|\s{0,8})(?P<line>\d{1,9})(?:\s|$)")
_LEFT_OUT = "(...)"
_LONGEST = 60
"""Lines of a listing on one side of its arrow: a statement that spans lines is shown whole."""


def is_listed(lines: Sequence[Line], line: Line) -> bool:
    """Whether a line (`lines[line.order]`) is of the source around an arrow: its numbers rise, and skip what is empty."""
    if _LISTED.match(line.text) is None:
        return False
    above = reversed(lines[max(0, line.order - _LONGEST) : line.order])
    below = lines[line.order + 1 : line.order + 1 + _LONGEST]
    return _leads_to_arrow(line, above, -1) or _leads_to_arrow(line, below, 1)


def _leads_to_arrow(line: Line, others: Iterable[Line], step: int) -> bool:
    """Whether the numbers of the lines beside it go up (`step` 1) or down (-1) to one with an arrow."""
    number = _number(line.text)
    for other in others:
        if other.stream != line.stream or other.text.strip() == _LEFT_OUT:
            continue
        its_number = _number(other.text)
        if not its_number or (its_number - number) * step <= 0:
            return False
        if ARROW.match(other.text):
            return True
        number = its_number
    return False


def _number(text: str) -> int:
    """Return the number in front of a line of source, 0 where there is none."""
    listed = _LISTED.match(text)
    return int(listed["line"]) if listed else 0
