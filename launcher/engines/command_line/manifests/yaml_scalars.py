"""Where a value of YAML ends that quotes, brackets or its indent carry over several lines. Pure."""

from collections.abc import Sequence

from preflight import regex as re

_PART = re.compile(r"[^\"'\[\]\\#]+|\\.|.", re.DOTALL)
_STARTS = re.compile(r"[ ]*(?:#|- |[\w.-]+:(?:[ \t]|$)|-?\t)")  # continues no plain value

_MOST_LINES, _LONGEST = 60, 20_000


def join_value(lines: Sequence[str], at: int, value: str, indent: int) -> tuple[str, int]:
    """Return a value that starts on line `at`, on one line, and the first line behind it.

    Lines deeper than `indent`, of its key or its `-`, continue a plain value. In double quotes a backslash at
    the end of a line joins it to the next one without a blank. A value whose quotes or brackets do not end in
    time is returned as far as its own line.
    """
    if not value.startswith(('"', "'", "[")):
        return _plain_value(lines, at, value, indent)
    text, quote, depth = "", "", 0
    for end in range(at, min(len(lines), at + _MOST_LINES)):
        line = (value if end == at else lines[end]).strip()
        part, quote, depth = _read(line, quote, depth)
        is_joined = quote == '"' and part.endswith("\\") and not part.endswith("\\\\")
        text += part[:-1] if is_joined else part
        if len(text) > _LONGEST:
            break
        if not quote and depth <= 0:
            return text, end + 1
        text += "" if is_joined else " "
    return value, at + 1


def _plain_value(lines: Sequence[str], at: int, value: str, indent: int) -> tuple[str, int]:
    """Return a value without quotes, with the lines that continue it."""
    end = at + 1
    while end < min(len(lines), at + _MOST_LINES) and " #" not in value:
        line = lines[end]
        depth = len(line) - len(line.lstrip(" "))
        if depth <= indent or not line.strip() or _STARTS.match(line):
            break
        value, end = f"{value} {line.strip()}", end + 1
    return value, end


def _read(line: str, quote: str, depth: int) -> tuple[str, str, int]:
    """Return a line without its comment, the quote that is open behind it, and how many brackets."""
    kept: list[str] = []
    for found in _PART.finditer(line):
        part = found[0]
        if part == "#" and not quote and (not kept or kept[-1].endswith((" ", "\t"))):
            break
        if quote:
            quote = "" if part == quote else quote
        elif part in "\"'":
            quote = part
        elif part in "[]":
            depth += 1 if part == "[" else -1
        kept.append(part)
    return "".join(kept).rstrip(), quote, depth
