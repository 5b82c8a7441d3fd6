"""How wide text is on a terminal, and text cut to a width. Pure."""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Span: TypeAlias = tuple[str, str]
"""A colour (the number of an SGR sequence, "" for none) and text without any control character."""

ELLIPSIS = "..."
_EMOJI_STYLE = "\ufe0f"


def cells(text: str) -> int:
    """Return how many columns a text takes, rather too many than too few."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def fit(spans: Iterable[Span], width: int) -> list[Span]:
    """Return the beginning of a line that takes at most `width` columns, with dots where it was cut."""
    spans = list(spans)
    if sum(cells(text) for _, text in spans) <= width:
        return spans
    dots = ELLIPSIS[: max(0, width)]
    left = width - len(dots)
    cut: list[Span] = []
    for colour, text in spans:
        head = _head(text, left)
        left -= cells(head)
        cut.append((colour, head))
        if head != text:
            break
    return [*cut, ("", dots)]


def painted(spans: Sequence[Span], *, colour: bool) -> str:
    """Return a line for the terminal."""
    return "".join(f"\x1b[{code}m{text}\x1b[0m" if colour and code else text for code, text in spans)


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
    if character == _EMOJI_STYLE:  # makes what stands before it wide, on some terminals
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
