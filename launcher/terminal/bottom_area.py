"""The last rows of a terminal, redrawn in place, and lines that scroll above them."""

import os
from collections.abc import Callable, Sequence
from typing import TextIO

from launcher.terminal.cell_width import Painted, Span, measure_width, paint_line, truncate
from launcher.terminal.outlet import Outlet

Size = Callable[[], tuple[int, int]]  # columns and rows now: a window may be resized at any time

_FALLBACK = (80, 24)


def read_size(stream: TextIO) -> tuple[int, int]:
    """Return columns and rows of the terminal behind a stream."""
    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return _FALLBACK
    return columns or _FALLBACK[0], rows or _FALLBACK[1]


class BottomArea:
    """Owns the bottom of the terminal. The cursor rests behind its last row, so a killed program leaves a
    terminal that needs no repair: nothing was hidden or switched on.
    """

    def __init__(self, outlet: Outlet, size: Size, *, colour: bool) -> None:
        self._outlet = outlet
        self._size = size
        self._colour = colour
        self._widths: list[int] = []  # columns of each row on the screen now
        self._shown: list[Painted] = []

    @property
    def max_rows(self) -> int:
        """How many rows it may take: half of the terminal, and never more than twelve."""
        return max(1, min(12, self._size()[1] // 2))

    @property
    def columns(self) -> int:
        """How wide a row may be: the last column stays empty, where each terminal wraps in its own way."""
        return max(1, self._size()[0] - 1)

    def draw(self, lines: Sequence[Painted], rows: Sequence[Sequence[Span]]) -> bool:
        """Print lines above the rows in one write, without flicker; False where a slow terminal lost some."""
        fitted = [truncate(row, self.columns) for row in rows[: self.max_rows]]
        shown = [paint_line(row, colour=self._colour) for row in fitted]
        if not lines and shown == self._shown:
            return True
        above = "".join(f"{line}\n" for line in lines)
        if not self._outlet.write(f"{self._erasing()}{above}{chr(10).join(shown)}"):
            self._widths, self._shown = [], []
            return False
        self._widths = [sum(measure_width(text) for _, text in row) for row in fitted]
        self._shown = shown
        return True

    def _erasing(self) -> str:
        """Return what clears the rows, counted as they are after a window has become narrower."""
        if not self._widths:
            return ""
        columns = max(1, self._size()[0])
        up = sum(max(1, -(-width // columns)) for width in self._widths) - 1
        return "\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J"
