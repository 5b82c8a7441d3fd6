"""Tables of which a page took away the bars or the line ends: their rows as nvidia-smi printed them. Pure.

A row is only taken for one where every cell of it is what nvidia-smi prints in that place.
"""

from preflight import regex as re

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
_EDGE = r"(?:\+[-=+]{20,}|\|[-=+]{20,}\|)"
_HEAD = r"NVIDIA-SMI [\d.]+\s+Driver Version: [\d.]+(?:\s+CUDA Version: [\d.]+)?"
_ON_ONE_LINE = re.compile(
    rf"\|\s*{_HEAD}\s*\||{_EDGE}|\|\s*\d{{1,4}}\s+\S[^|\n]{{0,60}}\|\s*{_BUS}\s+{_MODE}\s*\|\s*{_ECC}\s*\|"
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
