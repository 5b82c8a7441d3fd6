"""Lines that a terminal or a box cut at its width, put together again. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence

from preflight import regex as re

NARROWEST, WIDEST = 60, 250  # columns between which a width is believed to be a terminal's
_POWERSHELL = "+ CategoryInfo "  # PowerShell cuts stderr at its own width, and says this above the rest
_ENOUGH = 3  # lines of exactly the greatest length that make it a width
_MOST_JOINED = 12
_DRAWN = 10
_PADDED = 3  # blanks at a line's end that fill it up to the terminal's width: such a line is whole
_BOX_ENDS = ("╯", "┘", "╮", "┐", "│", "┃")
_BEGINNING = 10
ONES = str.maketrans("023456789", "111111111")
# The same for a line that was cut at exactly the width: it may have been cut anywhere.
_BEGINS_SURELY = re.compile(
    r"\s*File \"|Traceback|During handling|The above exc|\[(?:rank|default)\d|\(\w+ pid=|\d{4}-\d\d-\d\d[T ]|[│╭╰┃┌└|]|\+[-=]|\d{1,3}%\|"
)
# A line that starts like this is a new one, however long the one before it was.
_BEGINS = re.compile(
    r"\s*(?:File \"|Traceback|During handling|The above exc|\[|\{|\d{4}-\d\d-\d\d|\d{1,3}%\||[EWIF]\d{4} |[│╭╰┃┌└|+*=#-]|\(\w+ pid="
    r"|raise\b|return\b|(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Warning)\b|\S+:\d+:\d+ \[|NCCL|Root Cause|traceback :|\w+ +: )"
)
# A progress bar is as wide as its program makes it, and ends with its line.
_BAR = re.compile(r"\d%\||(?:it/s|s/it)\b.{0,120}\]?$")
_INDENTED_CODE = re.compile(r"\s{2,}\S")
# What a traceback prints below a frame.
_FRAME = re.compile(r"\s*File \"[^\"]+\", line \d+, in [\w<>.]+$")
_BELOW_FRAME = re.compile(r"\s{4,}\S|(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception)\b")


def unwrap_lines(texts: Sequence[str], begins: Sequence[bool]) -> Iterator[tuple[int, str]]:
    """Return (place of its first part, text) of lines with those put together that were one.

    `begins`: which lines start with a prefix, and so are none's continuation.
    """
    width = _width(texts)
    after_box = _box_widths(texts)
    place = 0
    while place < len(texts):
        text = texts[place]
        taken = 1
        above = texts[place - 1] if place else ""
        # As one that was cut is behind its rest.
        whole = len(above) == len(text) == width and _alike(above, text)
        while not whole and place + taken < len(texts) and taken < _MOST_JOINED and not begins[place + taken]:
            last, following = texts[place + taken - 1], texts[place + taken]
            glue = _glue(last, following, width, after_box.get(place + taken - 1, 0))
            if glue is None:
                break
            text = text.rstrip("\n") + glue + following.lstrip() if glue else text + following
            taken += 1
        yield place, text
        place += taken


def _width(texts: Sequence[str]) -> int:
    """Return the columns of the terminal this was cut at, 0 when nothing says so."""
    texts = [text for text in texts if not _BAR.search(text)]
    by_length = Counter(map(len, texts))
    if any(_POWERSHELL in text for text in texts):  # which may leave stdout whole beside it
        longest, real = by_length.most_common(1)[0]
        return longest if real >= _ENOUGH else 0
    for longest in sorted(by_length, reverse=True):
        if longest < NARROWEST:
            return 0
        cut = (text for text in texts if len(text) == longest and not _is_rule(text))
        real = len({text.translate(ONES) for text in cut})  # one message, however often, shows no width
        if real:
            return longest if longest <= WIDEST and real >= _ENOUGH else 0
    return 0


def _is_rule(text: str) -> bool:
    """Whether a line is drawn to its end: "=====", "node-1: -----", "---+---+"."""
    end = text.rstrip()[-_DRAWN:]
    return not end[-1:].isalnum() and len(set(end) - set("+|")) <= 1


def _alike(last: str, following: str) -> bool:
    """Whether two lines start alike but for their numbers: lines of one format, each whole."""
    return last.lstrip()[:_BEGINNING].translate(ONES) == following.lstrip()[:_BEGINNING].translate(ONES)


def _box_widths(texts: Sequence[str]) -> dict[int, int]:
    """Return {line: width} for lines below the lower edge of a rich box, which breaks those at words."""
    found: dict[int, int] = {}
    for index, text in enumerate(texts):
        stripped = text.strip()
        if len(stripped) >= NARROWEST and stripped[0] in "╰└" and stripped[-1] in "╯┘":
            for below in range(index + 1, min(index + 1 + _MOST_JOINED, len(texts))):
                if texts[below].strip()[:1] in ("╭", "┌", "│"):
                    break
                found[below] = len(stripped)
    return found


def _glue(last: str, following: str, width: int, box: int) -> str | None:
    """Return what stood between two parts of one line: "", a blank, or None when they are two lines."""
    at_width = width and len(last) == width
    if not (at_width or box) or _is_rule(last) or _is_rule(following):
        return None
    if at_width:
        if last.rstrip()[-1:] in _BOX_ENDS or len(last) - len(last.rstrip()) >= _PADDED:
            return None
        whole = _FRAME.match(last) and _BELOW_FRAME.match(following)
        return None if whole or _BEGINS_SURELY.match(following) or _alike(last, following) else ""
    if not box or _BEGINS.match(following) or _INDENTED_CODE.match(following):
        return None
    first_word = following.split(None, 1)[0]
    return " " if len(last.rstrip()) <= box < len(last.rstrip()) + 1 + len(first_word) else None
