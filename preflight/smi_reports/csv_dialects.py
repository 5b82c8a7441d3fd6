"""The CSV of `--query-gpu` as spreadsheets and libraries write it again: as nvidia-smi printed it. Pure."""

import csv
import re

_NAME = r"[a-z_]{2,40}(?:\.[a-z_]{1,40}){0,6}(?: \[[\w/%]{1,5}\])?"
_HEADER = re.compile(
    rf"^(?=[^\n]*\b(?:index|name|uuid|memory\.\w+|pci\.bus_id)\b)"
    rf"(?:(?:\"\"|\"{_NAME}\"|{_NAME})?(?:[,;][ ]?(?:\"{_NAME}\"|{_NAME}))+)[,;]?[ ]*$",
    re.MULTILINE,
)
_DECIMAL = re.compile(r"(\d),(\d)")


def plain_csv(text: str) -> str:
    """Return a text whose CSV is in quotes, has semicolons or a column of row numbers, without these."""
    head = _HEADER.search(text)
    if head is None or not ('"' in head[0] or ";" in head[0] or head[0].startswith(",")):
        return text
    separator = ";" if ";" in head[0] else ","
    lines = text[head.start() :].split("\n")
    names = _values(lines[0], separator)
    numbered = names[:1] == [""]
    rows = [
        ", ".join(values[numbered:]) if len(values := _values(line, separator)) == len(names) else line
        for line in lines
    ]
    return text[: head.start()] + "\n".join(rows)


def _values(line: str, separator: str) -> list[str]:
    """Return the values of a line; a comma within one is that of a decimal number."""
    found = next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])
    return [_DECIMAL.sub(r"\1.\2", value.strip()) for value in found]
