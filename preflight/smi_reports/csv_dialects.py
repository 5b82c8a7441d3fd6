"""The CSV of `--query-gpu` as spreadsheets and libraries write it again: as nvidia-smi printed it. Pure."""

import csv

from preflight import regex as re

_NAME = r"[a-z_]{2,40}(?:\.[a-z_]{1,40}){0,6}(?: \[[\w/%]{1,5}\])?"
_HEADER = re.compile(
    rf"^(?=[^\n]*\b(?:index|name|uuid|memory\.\w+|pci\.bus_id)\b)"
    rf"(?:\"\"|\| *|\"?{_NAME}\"?)?(?:(?:[ ]?[,;\t|][ ]?|(?<=\S)[ ]{{2,}})\"?{_NAME}\"?|(?<=\| ){_NAME})+"
    r"[ ]?[,;|]?[ ]*$",
    re.MULTILINE,
)
_RULE = re.compile(r"[-:| ]+")
_DECIMAL = re.compile(r"(\d),(\d)")


def normalize_csv(text: str) -> str:
    """Return a text with commas alone between the values of its CSV.

    Quotes, semicolons, tabs, bars of Markdown, the blanks of `column -t` and a column of row numbers go away.
    """
    head = _HEADER.search(text)
    if head is None or not (head[0].startswith(",") or "  " in head[0] or set(head[0]) & set('";\t|')):
        return text
    separator = next((mark for mark in ("|", ";", "\t", "  ") if mark in head[0]), ",")
    lines = text[head.start() :].split("\n")
    names = _values(lines[0], separator)
    numbered = names[0] == ""
    rows = list[str]()
    for at, line in enumerate(lines, 1):
        values = _values(line, separator)
        is_cut = at == len(lines) and 1 < len(values) < len(names)
        if (len(values) == len(names) or is_cut) and not _RULE.fullmatch(line):
            rows.append(", ".join(values[numbered:]))
        elif separator != "|" or not line.strip().startswith("|"):
            rows.append(line)
    return text[: head.start()] + "\n".join(rows)


def _values(line: str, separator: str) -> list[str]:
    """Return the values of a line; a comma within one is that of a decimal number."""
    line = line.strip().removeprefix("|").removesuffix("|") if separator == "|" else line
    if separator == "  ":
        line, separator = re.sub(r" {2,}", "\t", line.strip()), "\t"
    return [_DECIMAL.sub(r"\1.\2", value) for value in parse_row(line, separator)]


def parse_row(line: str, separator: str = ",") -> list[str]:
    """Return the values of a line, none where one is longer than any of a GPU can be."""
    try:
        row = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    except csv.Error:
        return []
    return [value.strip() for value in row]
