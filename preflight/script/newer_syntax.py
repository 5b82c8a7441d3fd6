"""Syntax of Python 3.12 where an older Python reads a script: f-strings (PEP 701), type parameters (PEP 695).

The training may run on a newer Python than the one that judges it. Such syntax is replaced by something that
every Python reads and whose value is not known, at the same lines and columns, and the rest is judged.
"""

import ast
from collections.abc import Iterator

from preflight import regex as re

_UNKNOWN_TEXT = 'f"{...}"'  # as long as the shortest f-string that only the newer Python reads
_STRING = re.compile(r"""#[^\n]*|(?:\b([A-Za-z]{1,2}))?('''|\"""|'|")""")
_PARAMETERS = re.compile(
    r"^([ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+\w+[ \t]*)(\[[^\n]*?\])(?=[ \t]*[(:])", re.MULTILINE
)
_ALIAS = re.compile(r"^([ \t]*)(type[ \t]+)(\w+)([ \t]*(?:\[[^\n]*?\])?[ \t]*)=(?!=)", re.MULTILINE)
_MAX_NESTED = 20


class _NoEnd(Exception):
    """A string that never ends: no Python reads the text."""


def replace_newer_syntax(text: str) -> str:
    """Return the text with what only a newer Python reads replaced; the same text where nothing is."""
    pieces: list[str] = []
    end = 0
    try:
        for start, stop in _formatted(text):
            if not _is_read(text[start:stop]):
                pieces += [text[end:start], _unknown(text[start:stop])]
                end = stop
    except _NoEnd:
        return text
    text = "".join((*pieces, text[end:]))
    text = _PARAMETERS.sub(lambda found: found[1] + " " * len(found[2]), text)
    return _ALIAS.sub(lambda found: f"{found[1]}{found[3]}{' ' * len(found[2] + found[4])}=", text)


def _is_read(literal: str) -> bool:
    try:
        ast.parse(f"({literal})", mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _unknown(literal: str) -> str:
    first, *others = literal.split("\n")
    return "\n".join((_UNKNOWN_TEXT.ljust(len(first)), *(" " * len(line) for line in others)))


def _formatted(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the outermost f-strings start and end, as the newer Python finds their ends."""
    position = 0
    while (found := _STRING.search(text, position)) is not None:
        position = _end_of(text, found, 0)
        if _is_formatted(found):
            yield found.start(), position


def _is_formatted(found: re.Match[str]) -> bool:
    return "f" in (found[1] or "").lower()


def _end_of(text: str, found: re.Match[str], depth: int) -> int:
    """Return where a string or comment ends. Raises _NoEnd."""
    position, quote = found.end(), found[2]
    while quote and not text.startswith(quote, position):
        character = text[position : position + 1]
        if not character or (character == "\n" and len(quote) == 1):
            raise _NoEnd
        if character == "{" and _is_formatted(found):
            doubled = text.startswith("{{", position)
            position = position + 2 if doubled else _end_of_field(text, position, depth)
        else:
            position += 2 if character == "\\" else 1
    return position + len(quote or "")


def _end_of_field(text: str, position: int, depth: int) -> int:
    """Return where a replacement field ends that starts at a brace. Raises _NoEnd."""
    if depth == _MAX_NESTED:
        raise _NoEnd
    brackets, in_format = 0, False
    position += 1
    while (character := text[position : position + 1]) != "}" or brackets:
        found = None if in_format else _STRING.match(text, position)
        if not character:
            raise _NoEnd
        if found is not None:
            position = _end_of(text, found, depth + 1)
        elif in_format and character == "{":
            position = _end_of_field(text, position, depth + 1)
        else:
            brackets += (character in "([{") - (character in ")]}")
            in_format = in_format or (character == ":" and not brackets)
            position += 1
    return position + 1
