"""Python tracebacks in a log: which exceptions were raised, in which order, from which line of the user's code."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from preflight.diagnosis.lines import Line

_HEADER = re.compile(r"Traceback \(most recent call last\)")
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_RICH_FRAME = re.compile(r"^\s*(?P<file>/?[\w./~-]+\.py):(?P<line>\d+) in \S+")
_EXCEPTION = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z_]\w*|[a-z_]\w*(?:\.\w+)*Error)(?:\((?P<inner>\w+)\))?(?:: ?(?P<message>.*))?$"
)
_NOT_AN_EXCEPTION = re.compile(
    r"^(?:Traceback|File|During|The above|Original|INFO|WARNING|ERROR|DEBUG|Epoch)\b"
)
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"
_LIBRARY = re.compile(r"(?:site|dist)-packages/|/lib(?:64)?/python3|^<frozen|^<string>|importlib")
# A traceback longer than this is a recursion; what counts stands at its end and is found by itself.
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of a file."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception as printed. `follows` says how the one printed before it is linked to it."""

    type: str
    message: str
    number: int  # of the line that names it
    rank: int | None
    frames: tuple[Frame, ...]
    follows: str  # "" first of its chain, "cause" (raise ... from), "context" (during handling)

    @property
    def name(self) -> str:
        """The type without its module."""
        return self.type.rpartition(".")[2]

    @property
    def place(self) -> Frame | None:
        """The innermost frame in the user's own code."""
        return next((frame for frame in reversed(self.frames) if not _LIBRARY.search(frame.file)), None)


def find_raised(lines: Sequence[Line]) -> tuple[Raised, ...]:
    """Return every exception of every traceback, in the order printed, ranks kept apart."""
    by_rank: dict[int | None, list[Line]] = {}
    for line in lines:
        by_rank.setdefault(line.rank, []).append(line)
    found = [raised for own in by_rank.values() for raised in _of_one_rank(own)]
    return tuple(sorted(found, key=lambda raised: raised.number))


def roots(raised: Iterable[Raised]) -> tuple[Raised, ...]:
    """Return the exceptions that no other one caused, and of each chain of causes the innermost."""
    return tuple(each for each in raised if each.follows != "cause")


def _of_one_rank(lines: Sequence[Line]) -> Iterable[Raised]:
    follows = ""
    index = 0
    while index < len(lines):
        text = lines[index].text
        if _CAUSE in text:
            follows = "cause"
        elif _CONTEXT in text:
            follows = "context"
        elif _HEADER.search(text):
            raised, index = _one(lines, index, follows)
            follows = ""
            if raised is not None:
                yield raised
            continue
        index += 1


def _one(lines: Sequence[Line], start: int, follows: str) -> tuple[Raised | None, int]:
    frames: list[Frame] = []
    for index in range(start + 1, min(len(lines), start + _LONGEST)):
        text = lines[index].text
        if _HEADER.search(text):
            return None, index
        frame = _FRAME.match(text) or _RICH_FRAME.match(text)
        if frame:
            frames.append(Frame(frame["file"], int(frame["line"])))
            continue
        named = None if text[:1].isspace() or _NOT_AN_EXCEPTION.match(text) else _EXCEPTION.match(text)
        if named and (frames or named["message"]):
            line = lines[index]
            message = named["message"] or ""
            return Raised(named["type"], message, line.number, line.rank, tuple(frames), follows), index + 1
    return None, start + 1
