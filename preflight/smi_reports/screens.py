"""What a program that draws on a terminal, as `watch` does, left on its screen: lines again. Pure."""

from preflight import regex as re

_PLACED = re.compile(r"[^\n]*\x1b\[\d{1,4}(?:;\d{1,4}H|d)")
_CLEARED = re.compile(r"\x1b\[(?:\?(?:10)?4[79][hl]|2J|H\x1b\[0?J)")
"""Another screen starts, or that of the shell comes back; an emptied one is an earlier state."""
_STEP = re.compile(
    r"\x1b\[([?>]?\d{0,4})(?:;(\d{0,4}))?[\d;:]*([A-Za-z@])"
    r"|\x1b(?:\][^\x07\x1b]*\x07?|[()].|[^\[\]()\n])|[\r\n]|[^\x1b\r\n]+|\x1b"
)
_MOVES = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1)}
_SCROLLS = frozenset("LMST")
_EDGES = ("|", "+")
_MOST = 1000  # lines and columns of a screen
_LONGEST = 2 * _MOST
_MOST_BLANK = 16  # characters of a screen for one of a text: one that grows more has a far word


class _Screen:
    """A terminal: its lines, and where the cursor is."""

    def __init__(self) -> None:
        self.rows, self.y, self.x = [""], 0, 0

    def put(self, shown: str) -> None:
        row = self.rows[self.y].ljust(self.x)
        self.rows[self.y] = (row[: self.x] + shown + row[self.x + len(shown) :])[:_LONGEST]
        self.x = min(self.x + len(shown), _LONGEST)

    def move(self, y: int, x: int) -> None:
        self.y, self.x = max(0, min(y, max(_MOST, self.y + 1))), max(0, min(x, _MOST))
        self.rows += [""] * (self.y + 1 - len(self.rows))

    def obey(self, kind: str, first: str, second: str) -> None:
        """Do what a control sequence says; one that neither moves nor takes away is of colours."""
        row, count = self.rows[self.y], int(first) if first.isdigit() and first != "0" else 1
        if kind in ("H", "f", "d", "G"):
            at = count - 1 if kind == "G" else self.x if kind == "d" else int(second or 1) - 1
            self.move(self.y if kind == "G" else count - 1, at)
        elif kind in _MOVES:
            down, right = _MOVES[kind]
            self.move(self.y + down * count, self.x + right * count)
        elif kind == "J" and first in ("", "0"):
            self.rows[self.y + 1 :] = []
        elif kind == "b":
            self.put(row[self.x - 1 : self.x] * min(count, _MOST))
        if kind in ("K", "J") and first in ("", "0"):
            self.rows[self.y] = row[: self.x]
        elif kind in ("X", "P", "@"):
            kept = row[self.x + (kind != "@") * count :]
            blanks = " " * (kind != "P") * min(count, _MOST)
            self.rows[self.y] = (row[: self.x].ljust(self.x) + blanks + kept)[:_LONGEST]


def draw_screens(text: str) -> str:
    """Return a text with the last state of each screen as lines; a wrapped one is as wide as the screen.

    A screen places the cursor before it ends a line: what a shell printed stays as it is, for its lines are
    not those of the terminal. What scrolls a part of a screen ends it.
    """
    return "".join(_last_state(part) if _PLACED.match(part) else part for part in _CLEARED.split(text))


def _last_state(text: str) -> str:
    screen = _Screen()
    for step in _STEP.finditer(text):
        if step[3] in _SCROLLS:
            break
        if step[3]:
            screen.obey(step[3], step[1], step[2])
        elif step[0] in "\r\n":
            screen.move(screen.y + (step[0] == "\n"), 0)
        elif step[0][0] != "\x1b":
            screen.put(step[0])
    rows = [row for row in map(str.rstrip, filter(None, screen.rows)) if row]
    width = max(map(len, rows), default=0)
    below = [*rows[1:], ""]
    shown = "".join(
        f"{row.ljust(width) if row.startswith(_EDGES) and not rest.startswith(_EDGES) else row}\n"
        for row, rest in zip(rows, below, strict=False)
    )
    return shown if len(shown) < _MOST_BLANK * len(text) else text
