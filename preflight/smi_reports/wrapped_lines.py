"""Lines that a narrow terminal wrapped, whole again. Pure.

A terminal cuts each line at its width, so every piece but the last of a line is as long as the longest line.
"""

from collections.abc import Callable
from itertools import takewhile

from preflight import regex as re
from preflight.smi_reports.lost_indent import is_flat
from preflight.smi_reports.pasted_rows import restore_rows

_EDGE = re.compile(r"^\+-{19,}(?:\n-+){0,8}\n-*\+(?=\n\|[^\S\n]*NVIDIA-SMI )", re.MULTILINE)
_WIDTHS = (56, 79, 89, 91)  # of the upper edge: of drivers to 346, to 530, to 545, and since
_Q_VALUE = re.compile(r"^(?:Driver Version|Attached GPUs|    [A-Z][\w ]*?)( +):(?: |$)", re.MULTILINE)
_Q_ALONE = re.compile(
    r"GPU (?:[0-9A-Fa-f]{4}){1,2}:|=+NVSMI LOG|(?: {4})+\S|\S[^:\n]{0,40}: |[|+]"
    r"|(?:.{0,80}[$#%>] )?(?:sudo )?nvidia-smi\b"
)
MONITOR = r"^#[^\S\n]*(?:(?:date|time),?[^\S\n]+){0,2}gpu,?[^\S\n]+(?:pwr|pid|sm|fb|mclk|pviol|sbecc|rxpci)\b"
"""The first line of dmon and pmon: the names of columns."""
_NAMES = re.compile(r"[a-z\d ]*[a-z][a-z\d ]*")
_ROW = re.compile(r"\s*(?:\d{8}\s+)?(?:[\d:]{8}\s+)?\d{1,2}\s+(?:\d{1,10}|-)\s")
_WORD = re.compile(r"[\w.-]{1,20}\s*")
_NARROWEST = 20
_MOST_PIECES = 20  # of a row of a monitor
_SHORT = 3  # ends of lines in a text of one piece and its rest


def unwrap_lines(text: str) -> str:
    """Return a table, a `-q` or its XML with whole lines again, another text as it is."""
    if "<nvidia_smi_log" in text or "<nvidia_smi_log" in text.replace("\n", ""):
        return _unwrapped_xml(text)
    if "NVSMI LOG=" in text:
        return _unwrapped_q(text)
    monitor = re.search(MONITOR, text, re.MULTILINE | re.IGNORECASE)
    if monitor and "| NVIDIA-SMI " not in text:
        return text[: monitor.start()] + _unwrapped_monitor(text[monitor.start() :])
    return _unwrapped_table(restore_rows(text))


def _unwrapped_monitor(text: str) -> str:
    """A row has as many values as the first line has names; a name of a program may continue."""
    lines = text.split("\n")
    count = len("".join([lines[0], *takewhile(_NAMES.fullmatch, lines[1:])]).split()) - 1

    def is_piece(pieces: list[str], line: str) -> bool:
        above = "".join(pieces[-_MOST_PIECES:])
        if not _NAMES.match(lines[1]):  # no row is wrapped within its values
            return _WORD.fullmatch(line) is not None and not above.endswith(" ")
        lacks = len(above.lstrip("# ").split()) < count
        return (lacks or not _ROW.match(line)) and not line.startswith("#")

    return "\n".join(join_pieces(lines, is_piece))


def _unwrapped_table(text: str) -> str:
    """The upper edge says how long a line of the table is, and how wide the terminal was."""
    edge = _EDGE.search(text)
    if edge is None:
        return text
    pieces = edge[0].split("\n")
    width, whole = len(pieces[0]), sum(map(len, pieces))
    if whole not in _WIDTHS:
        return text  # the pieces are cut, too
    joined = list[str]()
    for line in text.split("\n"):
        last = joined[-1] if joined else ""
        is_piece = last[:1] in ("|", "+") and width <= len(last) < whole and len(last) % width == 0
        if is_piece and not (last.endswith(("|", "+")) and line.startswith(("|", "+"))):
            joined[-1] += line
        else:
            joined.append(line)
    return "\n".join(joined)


def _unwrapped_q(text: str) -> str:
    """A piece has no colon where the others have theirs, and no heading's blanks in front of it."""
    lines = text.split("\n")
    colons = [match.end(1) - match.start() for match in _Q_VALUE.finditer(text)]
    if max(map(len, lines)) < _NARROWEST or not colons or is_flat(text):
        return text  # where nothing is indented a heading looks like a piece
    colon = max(set(colons), key=colons.count)

    def is_piece(_: list[str], line: str) -> bool:
        alone = line.find(":", colon - 1) in (colon - 1, colon) or _Q_ALONE.match(line)
        return bool(line.strip()) and not alone

    return "\n".join(join_pieces(lines, is_piece))


def _unwrapped_xml(text: str) -> str:
    """A piece does not start with a tag, unless the XML was one line: then most lines are as long."""
    lines = text.split("\n")
    width = max(map(len, lines))
    full = sum(1 for line in lines if len(line) == width)
    if width < _NARROWEST or (full == 1 and text.count("\n") > _SHORT):
        return text
    is_one_line = full * 2 > len(lines)
    return "\n".join(join_pieces(lines, lambda _, line: is_one_line or not line.lstrip().startswith("<")))


def join_pieces(lines: list[str], is_piece: Callable[[list[str], str], bool]) -> list[str]:
    """Return lines with pieces joined to the longest ones; `is_piece` gets the pieces above and the line."""
    width, was_full, joined = max(map(len, lines)), False, list[list[str]]()
    for line in lines:
        if was_full and is_piece(joined[-1], line):
            joined[-1].append(line)
        else:
            joined.append([line])
        was_full = len(line) == width
    return list(map("".join, joined))
