"""Lines that a narrow terminal wrapped, and rows whose bars or line ends a page took away, whole again. Pure.

A terminal cuts each line at its width, so every piece but the last of a line is as long as the longest line.
A row is only taken for one where every cell of it is what nvidia-smi prints in that place.
"""

from collections.abc import Callable
from itertools import takewhile

from preflight import regex as re
from preflight.smi_reports.lost_indent import is_flat

_BUS = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"
_MODE = r"(?:On|Off|WDDM|TCC|MCDM|N/A)"
_ECC = r"(?:\d{1,9}|Off|N/A)"
_READINGS = r"(?:\d{1,3}%|N/A)\s+(?:\d{1,3}C|N/A)\s+(?:P\d{1,2}|N/A)\s+\S{1,9}\s*/\s*\S{1,9}"
_MEMORY = r"\d{1,12}MiB\s*/\s*\d{1,12}MiB"
_USE = r"(?:\d{1,3}%|N/A)\s+(?:Default|Prohibited|E\. (?:Process|Thread)|N/A)"
_MIG = r"(?:Enabled|Disabled|N/A)\*?"
_PROCESS = (
    r"\d{1,4}\s+(?:(?:N/A|\d{1,4})\s+(?:N/A|\d{1,4})\s+)?\d{1,10}\s+[CGM]{1,2}(?:\+[CGM])?\s+"
    r"\S[^|\n]{0,200}?\s+(?:\d{1,12}MiB|N/A)"
)
_TABLE_EDGE = r"(?:\+[-=+]{20,}|\|[-=+]{20,}\|)"
_HEAD = r"NVIDIA-SMI [\d.]+\s+Driver Version: [\d.]+(?:\s+CUDA Version: [\d.]+)?"
_ON_ONE_LINE = re.compile(
    rf"\|\s*{_HEAD}\s*\||{_TABLE_EDGE}|\|\s*\d{{1,4}}\s+\S[^|\n]{{0,60}}\|\s*{_BUS}\s+{_MODE}\s*\|\s*{_ECC}\s*\|"
    rf"|\|\s*{_READINGS}\s*\|\s*{_MEMORY}\s*\|\s*{_USE}\s*\||\|\s*\|\s*\|\s*{_MIG}\s*\||\|\s*Processes:"
    rf"|\|\s*{_PROCESS}\s*\|"
)
_BARE = tuple(
    (re.compile(pattern), row)
    for pattern, row in (
        (rf"\s*({_HEAD})\s*", r"| \1 |"),
        (rf"\s*(\d{{1,4}}\s+\S.{{0,60}}?\s+{_MODE})\s+({_BUS}\s+{_MODE})\s+({_ECC})\s*", r"| \1 | \2 | \3 |"),
        (rf"\s*({_READINGS})\s+({_MEMORY})\s+({_USE})\s*", r"| \1 | \2 | \3 |"),
        (rf"\s*({_MIG})\s*", r"| | | \1 |"),
        (r"\s*(Processes:)\s.*", r"| \1 |"),
        (rf"\s*({_PROCESS})\s*", r"| \1 |"),
    )
)
_GPUSTAT_ROW = re.compile(
    r"(?:^|(?<=\s))(?=\[\d{1,2}\] [^|\n\[\]]{1,80}\|[^|\n]{1,80}\|[^|\n]{0,20} / {1,8}\d{1,12} MB)"
)
"""In front of a row of gpustat."""
_LONG_LINE = re.compile(rf"^[^\n]{{0,200}}NVIDIA-SMI [^\n]{{200,}}{_BUS}[^\n]*$", re.MULTILINE)
_BARE_HEAD = re.compile(rf"^[^\S\n]*{_HEAD}[^\S\n]*$", re.MULTILINE)
_LONGEST = 60_000  # of a table on one line; 64 GPUs take 20,000 characters


def restore_rows(text: str) -> str:
    """Return a text with the rows of its table in lines of their own, between bars; another text as it is."""
    if " MB" in text:
        text = "\n".join(map(_with_gpustat_rows, text.split("\n")))
    if "NVIDIA-SMI" not in text:
        return text
    if _BARE_HEAD.search(text):
        return "\n".join(map(_with_bars, text.split("\n")))
    return _LONG_LINE.sub(_with_lines, text)


def _with_gpustat_rows(line: str) -> str:
    """Return a line with each of its rows in a line of its own, where a shell split text at blanks."""
    return _GPUSTAT_ROW.sub("\n", line) if len(_GPUSTAT_ROW.findall(line)) > 1 else line


def _with_lines(found: re.Match[str]) -> str:
    line = found[0]
    return line if len(line) > _LONGEST else _ON_ONE_LINE.sub(lambda row: f"\n{row[0].strip()}\n", line)


def _with_bars(line: str) -> str:
    if "|" in line:
        return line
    for pattern, row in _BARE:
        if found := pattern.fullmatch(line[:400]):
            return found.expand(row)
    return line


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
