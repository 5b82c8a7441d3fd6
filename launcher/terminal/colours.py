"""The colours that a script prints, as spans: nothing else of it that steers a terminal passes. Pure."""

from launcher.terminal.cell_width import Span, measure_width
from launcher.text import TAB, sanitize
from preflight import regex as re

_SGR = re.compile(r"\x1b\[([0-9;]{0,64})m")
_OFF = {
    "22": ("1", "2"),
    "23": ("3",),
    "24": ("4",),
    "27": ("7",),
    "29": ("9",),
    "39": ("fg",),
    "49": ("bg",),
}
_ON = {
    **{number: number for number in ("1", "2", "3", "4", "7", "9")},
    **{str(number): "fg" for number in (*range(30, 38), *range(90, 98))},
    **{str(number): "bg" for number in (*range(40, 48), *range(100, 108))},
}
"""What each number sets: bold, faint, italic, underlined, inverse, struck, and the colours. What blinks or
conceals does not pass."""
_LONG = {("38", "5"): 3, ("48", "5"): 3, ("38", "2"): 5, ("48", "2"): 5}
"""How many numbers a colour of the 256, or one of red, green and blue, takes."""
_HIGHEST = 255


def split_spans(line: str | bytes) -> list[Span]:
    """Return one line of a log as spans of safe text with the colours that the script gave them.

    Colours end with the line. Tabs become spaces, counted from the start of the line.
    """
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    if "\x1b" not in text:
        return [("", _expanded(sanitize(text), 0))]
    spans: list[Span] = []
    style: dict[str, str] = {}
    column = 0
    for place, part in enumerate(_SGR.split(text)):
        if place % 2:
            _change(style, part.split(";"))
        elif part:
            shown = _expanded(sanitize(part), column)
            column += measure_width(shown)
            spans.append((";".join(style.values()), shown))
    return spans


def _expanded(text: str, column: int) -> str:
    """Return cleaned text as a part of a line that starts at a column."""
    if text.isprintable():
        return text
    first, *rest = text.replace("\n", "\\n").split("\t")
    shown = first
    for part in rest:
        shown += " " * (TAB - (column + measure_width(shown)) % TAB) + part
    return shown


def _change(style: dict[str, str], numbers: list[str]) -> None:
    """Take the numbers of a sequence; those that are not colour or style change nothing."""
    while numbers:
        number = numbers[0].lstrip("0")
        length = 1
        if number in ("38", "48"):
            length = _LONG.get((number, "".join(numbers[1:2]).lstrip("0")), 2)
        taken, numbers = [each.lstrip("0") or "0" for each in numbers[:length]], numbers[length:]
        if not number:
            style.clear()
        elif number in _OFF:
            for key in _OFF[number]:
                style.pop(key, None)
        elif number in _ON:
            style[_ON[number]] = number
        elif length == len(taken) > 2 and all(len(each) <= 3 and int(each) <= _HIGHEST for each in taken[2:]):
            style["fg" if number == "38" else "bg"] = ";".join(taken)
