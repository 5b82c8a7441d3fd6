"""How wide text is on a terminal, and text cut to a width. Pure."""

from collections.abc import Iterable, Sequence
from typing import NewType, TypeAlias

from launcher.text import sanitize

Span: TypeAlias = tuple[str, str]  # a colour (the numbers of an SGR sequence, "" for none) and text
StyledLine: TypeAlias = str | Sequence[Span]
"""One line as commands and reports give it; whatever its text says, it steers no terminal."""
Painted = NewType("Painted", str)
"""One line for a stream, without its end. Only `painted` makes it, and only it goes to a terminal."""

ELLIPSIS = "..."
_CODE = frozenset("0123456789;")
_EMOJI_STYLE = "\ufe0f"


def measure_width(text: str) -> int:
    """Return how many columns a text takes, rather too many than too few."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def truncate(spans: Iterable[Span], width: int) -> list[Span]:
    """Return the start of a line that takes at most `width` columns, with dots where it was cut."""
    spans = list(spans)
    if sum(measure_width(text) for _, text in spans) <= width:
        return spans
    dots = ELLIPSIS[: max(0, width)]
    left = width - len(dots)
    cut: list[Span] = []
    for colour, text in spans:
        head = _head(text, left)
        left -= measure_width(head)
        cut.append((colour, head))
        if head != text:
            break
    return [*cut, ("", dots)]


def paint_line(line: StyledLine, *, colour: bool) -> Painted:
    """Return a line for a stream: its text made safe, its colours only if wanted."""
    if isinstance(line, str):
        return Painted(sanitize(line, keep_lines=False))
    return Painted("".join(_painted(code, text, colour=colour) for code, text in line))


def _painted(code: str, text: str, *, colour: bool) -> str:
    text = sanitize(text, keep_lines=False)
    if not (colour and code and text):
        return text
    return f"\x1b[{code}m{text}\x1b[0m" if _CODE.issuperset(code) else text


def _head(text: str, width: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += _cell(character)
        if used > width:
            return text[:place]
    return text


def _cell(character: str) -> int:
    if character < "\u0300":
        return 1
    if character == _EMOJI_STYLE:  # makes what precedes it wide, on some terminals
        return 1
    import unicodedata  # noqa: PLC0415 - ASCII needs no table

    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
