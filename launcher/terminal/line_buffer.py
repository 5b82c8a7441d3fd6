r"""Bytes of a log to lines for a terminal. Files keep the bytes; this is only what people see. Pure.

A progress bar redraws one line by `\r`, or several: only their last state is a line, and one that continues
is shown now and then. A line without end is shown cut.
"""

from collections.abc import Iterator

from launcher.terminal.rows import MAX_LINE, TerminalRow, TerminalRows
from launcher.text import HIDDEN
from preflight import regex as re

_PLAIN = bytes((*b"\t\n", *range(0x20, 0x7F)))
_NO_CONTROL = bytes((0x1B, *range(0x80, 0x100)))
_SGR = re.compile(r"\x1b\[[0-9;]{0,64}m")
BAR_EVERY_S = 2.0
BAR_AT_MOST_EVERY_S = 60.0  # a bar of hours is reported ever less often, or a file would fill
PROMPT_AFTER_S = 2.0
_SETTLED_AFTER_S = 0.5
_SMALL_BLOCK = 1 << 10  # bytes that are cut into lines as soon as one of these needs care


def read_plain(block: bytes, *, coloured: bool) -> str | None:
    """Return whole lines as text, its tabs left; None where a line needs care: it may steer, or is too long.

    A log of a day has millions of lines, and next to none of them needs more than its origin in front.

    `coloured`: the colours of a script are wanted, which have to end with their lines.
    """
    odd = block.translate(None, _PLAIN)
    if odd.translate(None, _NO_CONTROL) or (coloured and b"\x1b" in odd) or _has_long_line(block):
        return None
    text = block.decode("utf-8", "replace")
    if not odd:
        return text
    # Each character of the text is whole in `odd`: a byte that starts one never continues another.
    if not odd.isascii() and (b"\t" in block or re.search(HIDDEN, odd.decode("utf-8", "replace"))):
        return None  # wide characters move tab stops
    if b"\x1b" in odd:
        text = _SGR.sub("", text)
    return None if "\x1b" in text else text


def _has_long_line(block: bytes) -> bool:
    at = 0
    while at < len(block):
        at = block.rfind(b"\n", at, at + MAX_LINE + 1) + 1
        if not at:
            return True
    return False


class LineBuffer:
    """Cuts one log into lines as its bytes come, in whatever pieces."""

    def __init__(self) -> None:
        self._rows = TerminalRows()
        self._fed = 0.0

    def feed(self, data: bytes, now: float) -> list[str]:
        r"""Take bytes, return the lines that they finish."""
        self._fed = now
        plain = self._plain(data, now)
        return self._rows.draw(data, now) if plain is None else plain

    def feed_blocks(self, data: bytes, now: float, *, coloured: bool) -> Iterator[str | list[str]]:
        """Take bytes, yield the lines that they finish: as a list, or as one text where none needs care.

        `coloured`: colours need care too, else they are left out of a text. Its tabs are as they came.
        """
        end = data.rfind(b"\n") + 1
        parts = [(0, end)] if end else []
        while parts:
            start, stop = parts.pop()
            if not self.is_empty:  # up to the end of what has started
                middle = data.index(b"\n", start) + 1
                yield self.feed(data[start:middle], now)
                parts += [(middle, stop)] if middle < stop else []
            elif (text := read_plain(data[start:stop], coloured=coloured)) is not None:
                yield text
            elif stop - start > _SMALL_BLOCK and (middle := _middle(data, start, stop)) < stop:
                parts += [(middle, stop), (start, middle)]
            else:
                yield self.feed(data[start:stop], now)
        if data[end:]:
            yield self.feed(data[end:], now)

    def _plain(self, data: bytes, now: float) -> list[str] | None:
        """Take lines that nothing is drawn over as a whole; None for all else."""
        head, newline, rest = data.rpartition(b"\n")
        if not newline or not self._rows.simple or b"\r" in data or b"\x1b" in data:
            return None
        whole = bytes(self._rows.current.text) + head
        lines = whole.decode("utf-8", "replace").split("\n")
        if len(max(lines, key=len)) > MAX_LINE:
            return None
        self._rows = TerminalRows()
        self._rows.draw(rest, now)
        return lines

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits for its end."""
        return self._rows.is_empty

    def list_unfinished(self, now: float) -> list[str]:
        """Return the current state of lines that have been without end for a while, once per state."""
        lines = self.flush_idle(now)
        for row in self._rows.rows:
            state = row.state
            if state.strip() and state != row.last_shown and now - row.since >= _patience(row, now):
                row.since, row.last_shown = now, state
                lines.append(row.words)
        return lines

    def flush_idle(self, now: float) -> list[str]:
        """Return bars that were left for good a moment ago, as lines."""
        return self._rows.flush_above() if now - self._fed > _SETTLED_AFTER_S else []

    def progress_bars(self) -> list[str]:
        """Return the rows that are being redrawn, from the top."""
        return [row.words for row in self._rows.rows if row.redrawn and row.state.strip()]

    def find_partial(self, now: float) -> str:
        """Return a line that has waited for its end for a while, "" when there is none: a prompt."""
        row = self._rows.current
        waits = row.state and not row.redrawn and now - self._fed > _SETTLED_AFTER_S
        return row.words if waits else ""

    def flush(self) -> list[str]:
        """Return what the log ended with instead of a line."""
        return self._rows.flush()


def _patience(row: TerminalRow, now: float) -> float:
    if not row.returned:
        return PROMPT_AFTER_S
    return min(BAR_AT_MOST_EVERY_S, max(BAR_EVERY_S, (now - row.began) / 20))


def _middle(data: bytes, start: int, stop: int) -> int:
    """Return where a line starts in the middle of whole lines; `stop` where they are one line."""
    half = (start + stop) // 2
    return data.rfind(b"\n", start, half) + 1 or data.index(b"\n", half, stop) + 1
