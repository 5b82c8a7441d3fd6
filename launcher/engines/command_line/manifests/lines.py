"""Mappings and values of a manifest by the columns of its lines. Pure."""

from collections.abc import Iterator, Sequence

NEXT_DOCUMENT = "#---"  # in front of a manifest that a page shows: no command, should a shell read it
ENDS = ("---", NEXT_DOCUMENT)
_MOST_LEVELS = 30  # of mappings around a command; no manifest has more


def find_mapping(lines: Sequence[str], line: int, indent: int) -> range:
    """Return the lines of the mapping at an indent that a line is in; its first may have an item's mark."""
    first = last = line
    while first > 0 and not _is_item(lines[first], indent):
        if _is_outside(lines[first - 1], indent) and not _is_item(lines[first - 1], indent):
            break
        first -= 1
    while last < len(lines) - 1 and not _is_outside(lines[last + 1], indent):
        last += 1
    return range(first, last + 1)


def list_levels(lines: Sequence[str], line: int, indent: int) -> Iterator[tuple[range, int, int]]:
    """Yield the mappings that have a line, from the inner one: their lines, indent, and the line in them."""
    for _ in range(_MOST_LEVELS):
        around = find_mapping(lines, line, indent)
        yield around, indent, line
        line = around.start - 1
        while line >= 0 and (_is_blank(lines[line]) or get_indent(lines[line]) >= indent):
            line -= 1
        if line < 0 or lines[line].startswith(ENDS):
            return
        indent = get_indent(lines[line])


def _is_outside(line: str, indent: int) -> bool:
    """Whether a line is of another mapping than the keys at `indent`, or between two documents."""
    return not _is_blank(line) and (
        get_indent(line) < indent or line.startswith(ENDS) or _is_item(line, indent)
    )


def _is_item(line: str, indent: int) -> bool:
    return line.lstrip(" ").startswith("- ") and get_indent(line) == indent


def _is_blank(line: str) -> bool:
    return line.strip()[:1] in ("", "#") and line != NEXT_DOCUMENT


def end_of_value(lines: Sequence[str], line: int, indent: int) -> int:
    """Return the first line behind the value of a key."""
    behind = (at for at in range(line + 1, len(lines)) if is_behind(lines[at], indent))
    return next(behind, len(lines))


def is_behind(line: str, indent: int) -> bool:
    """Whether a line is behind the value of a key at an indent: of another key, as its items are not."""
    return not _is_blank(line) and (
        get_indent(line) < indent or (get_indent(line) == indent and not line.lstrip(" ").startswith("- "))
    )


def get_indent(line: str) -> int:
    """Return the column of a line's first key: behind `- `, as YAML counts it."""
    bare = line.lstrip(" ")
    return len(line) - len(line.lstrip(" -") if bare.startswith("- ") else bare)
