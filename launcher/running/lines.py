r"""Bytes of a log to lines for a terminal. Files keep the bytes; this is only what people see. Pure.

A progress bar redraws one line by `\r`: only its last state is a line, and an unfinished one is shown now
and then. A line without end is shown cut.
"""

from launcher.report.text import clean

MAX_LINE = 8192
BAR_EVERY_S = 2.0
PROMPT_AFTER_S = 2.0
_CUT = " [... cut here; the file has all of it]"


class LineCutter:
    """Cuts one log into lines as its bytes come, in whatever pieces."""

    def __init__(self) -> None:
        self._line = bytearray()  # what stands on the current line; begins anew at \r
        self._before = b""  # what stood there before the last \r, if nothing has replaced it
        self._cut = False
        self._since = 0.0  # when the shown state of an unfinished line was shown last
        self._shown = b""

    def feed(self, data: bytes, now: float) -> list[str]:
        r"""Take bytes, return the lines that they finish."""
        plain = self._plain(data, now)
        if plain is not None:
            return plain
        if not self._line and not self._before:
            self._since = now
        pieces = data.split(b"\n")
        lines = []
        for piece in pieces[:-1]:
            self._add(piece)
            lines.append(self._finish())
        self._add(pieces[-1])
        return lines

    def _plain(self, data: bytes, now: float) -> list[str] | None:
        """Take what needs no care as a whole: printable ASCII in lines that fit; None for all else."""
        head, newline, rest = data.rpartition(b"\n")
        if not newline or self._before or self._cut or not (data.isascii() and self._line.isascii()):
            return None
        text = (self._line + head).decode("ascii")
        if not text.replace("\n", "").isprintable():
            return None
        lines = text.split("\n")
        if len(max(lines, key=len)) > MAX_LINE:
            return None
        self._line.clear()
        self._shown = b""
        self._since = now
        self._add(rest)
        return lines

    def unfinished(self, now: float) -> list[str]:
        """Return the current state of a line that has been without end for a while, once per state."""
        state = bytes(self._line) or self._before
        if not state or state == self._shown:
            return []
        if now - self._since < (BAR_EVERY_S if self._before else PROMPT_AFTER_S):
            return []
        self._since = now
        self._shown = state
        return [clean(state, keep_lines=False)]

    def rest(self) -> list[str]:
        """Return what the log ended with instead of a line."""
        state = bytes(self._line) or self._before
        return [self._finish()] if state and state != self._shown else []

    def _add(self, piece: bytes) -> None:
        *redrawn, last = piece.split(b"\r")
        for part in redrawn:
            self._keep(part)
            self._before = bytes(self._line) or self._before
            self._line.clear()
            self._cut = False
        self._keep(last)

    def _keep(self, part: bytes) -> None:
        room = MAX_LINE - len(self._line)
        self._cut = self._cut or len(part) > room
        self._line += part[: max(0, room)]

    def _finish(self) -> str:
        text = clean(bytes(self._line) or self._before, keep_lines=False)
        text = text + _CUT if self._cut else text
        self._line.clear()
        self._before = self._shown = b""
        self._cut = False
        return text
