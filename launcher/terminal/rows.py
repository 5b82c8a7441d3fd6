r"""The rows of a terminal that a log still draws on: a line ended by `\r`, several as tqdm nests them. Pure.

A bar below another one is drawn by going down, drawing, and coming back up (`\n`, text, `ESC [ A`). So a
newline behind a bar need not end it, and what has been passed for good is a line.
"""

from dataclasses import field

from preflight import regex as re
from preflight.frozen import dataclass

MAX_LINE = 8192
MAX_ROWS = 8  # rows that are drawn on at once; of more the uppermost become lines
_MOST_STATES = 5
_CUT = " [... cut; the file has all of it]"
_TOKEN = re.compile(rb"(\n|\x1b\[\d{0,3}A)")
_HALF = re.compile(rb"\x1b(?:\[\d{0,3})?\Z")


@dataclass(slots=True)
class TerminalRow:
    """One row: what is on it, and whether it is drawn again and again."""

    text: bytearray = field(default_factory=bytearray)  # since the last \r
    before: bytes = b""  # what was on the row before it, if nothing has replaced it
    cut: bool = False
    returned: bool = False
    blanked: bool = False  # blanks were drawn over it
    redrawn: bool = False
    dirty: bool = False  # drawn since the cursor came to it last
    complete: bool = False  # drawn, and started anew, since then
    since: float = 0.0  # when it began, or its state was reported last
    began: float = 0.0
    last_shown: bytes | None = None

    @property
    def state(self) -> bytes:
        """What a person sees on it."""
        return bytes(self.text) or self.before

    @property
    def plain(self) -> bool:
        """Whether it is the start of a line and nothing else."""
        return not (self.before or self.cut or self.returned or self.blanked)

    @property
    def words(self) -> str:
        """The state as it came: `split_spans` makes it safe to print, and keeps its colours."""
        text = self.state.decode("utf-8", "replace")
        return text + _CUT if self.cut else text

    def write(self, data: bytes) -> None:
        """Put bytes behind what is on it."""
        self.redrawn = self.redrawn or self.returned
        if not data.isspace():
            self.dirty, self.blanked = True, False
        room = MAX_LINE - len(self.text)
        self.cut = self.cut or len(data) > room
        self.text += data[: max(0, room)]

    def carriage_return(self) -> None:
        """Start anew; what was wiped by blanks is as a row that nothing was drawn on."""
        self.complete = self.complete or self.dirty
        self.returned = not self._begin()

    def arrive(self) -> None:
        """Have the cursor come to it from above, to its start."""
        self.dirty = self.complete = False
        self._begin()

    def _begin(self) -> bool:
        """Start at the left; return whether blanks had wiped what was on it."""
        blank = self.text.isspace()
        if blank:
            self.before, self.returned, self.redrawn, self.blanked = b"", False, False, True
        else:
            self.before = bytes(self.text) or self.before
        self.text.clear()
        self.cut = False
        return blank


class TerminalRows:
    """Draws bytes onto rows; what will not change any more comes out as lines."""

    def __init__(self) -> None:
        self.rows = [TerminalRow()]
        self._cursor = 0
        self._risen = False
        self._half = b""

    @property
    def current(self) -> TerminalRow:
        """The row with the cursor."""
        return self.rows[self._cursor]

    @property
    def simple(self) -> bool:
        """Whether only a line has started."""
        return len(self.rows) == 1 and not self._half and self.rows[0].plain

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been drawn on them."""
        return self.simple and not self.rows[0].text and not self.rows[0].before

    def draw(self, data: bytes, now: float) -> list[str]:
        """Take bytes in whatever pieces; return the lines that they finish."""
        data = self._half + data
        half = _HALF.search(data)
        self._half = half[0] if half else b""
        lines: list[str] = []
        whole = data[: len(data) - len(self._half)]
        is_split = b"\n" in whole or b"\x1b" in whole
        for token in _TOKEN.split(whole) if is_split else (whole,):
            if token.startswith(b"\x1b[") and _TOKEN.fullmatch(token):
                self._rise(int(token[2:-1] or 1))
            elif token:
                if self._risen:  # it has come up, and is at home: bars above that are done
                    self._risen = False
                    self._commit(self._cursor, lines)
                self._draw_row(token, now, lines)
        return lines

    def flush_above(self) -> list[str]:
        """Return what is above the cursor as lines: nothing has come for a while."""
        lines: list[str] = []
        self._commit(self._cursor, lines)
        return lines

    def flush(self) -> list[str]:
        """Return all that is on the rows, and start anew."""
        if self._half:
            self.current.write(self._half)
        lines = [row.words for row in self.rows if row.state.strip() and row.state != row.last_shown]
        self.rows, self._cursor, self._risen, self._half = [TerminalRow()], 0, False, b""
        return lines

    def _draw_row(self, token: bytes, now: float, lines: list[str]) -> None:
        r"""Draw what stays on one row, or a newline. Of many states of a bar only the last ones are drawn."""
        text, *states = token.split(b"\r")
        if len(states) > _MOST_STATES and all(map(bytes.strip, states[:-1])):
            del states[2:-3]
        if text:
            self._put(text, now, lines)
        for state in states:
            self._put(b"\r", now, lines)
            if state:
                self._put(state, now, lines)

    def _put(self, token: bytes, now: float, lines: list[str]) -> None:
        row = self.current
        if not row.state:
            row.since = row.began = now
        if token == b"\r":
            row.carriage_return()
        elif token == b"\n":
            self._newline(lines)
        else:
            if row.complete and self._cursor and not token.isspace():
                self._commit(self._cursor, lines)  # drawn twice without coming up: it is at home
            row.write(token)

    def _newline(self, lines: list[str]) -> None:
        row = self.current
        below_bars = any(above.state for above in self.rows[: self._cursor])
        if (row.redrawn and row.state) or (not row.state and (below_bars or row.blanked)):
            self._cursor += 1
        else:
            self._commit(self._cursor, lines)
            lines.append(row.words)
            del self.rows[0]
        if self._cursor == len(self.rows):
            self.rows.append(TerminalRow())
        self.current.arrive()
        if len(self.rows) > MAX_ROWS:
            self._commit(1, lines)

    def _rise(self, count: int) -> None:
        self._cursor = max(0, self._cursor - count)
        self.current.dirty = self.current.complete = False
        self._risen = True

    def _commit(self, count: int, lines: list[str]) -> None:
        """Make lines of the uppermost rows."""
        for row in self.rows[:count]:
            blank = not row.state.strip()
            if row.state != row.last_shown and not (blank and (row.returned or row.blanked)):
                lines.append(row.words)
        del self.rows[:count]
        self._cursor = max(0, self._cursor - count)
