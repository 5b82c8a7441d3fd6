"""A live run as text: whole lines with their origin in front. For pipes, files, --plain."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from launcher.follow.usage import RankUsage
from launcher.terminal.cell_width import Painted, Span, StyledLine, paint_line
from launcher.terminal.colours import split_spans
from launcher.terminal.line_buffer import LineBuffer
from launcher.terminal.outlet import Outlet
from launcher.text import TAB, sanitize, supports_color

COLOURS = ("36", "33", "35", "32", "34", "96", "93", "95", "92", "94")
STOPPING_PATIENCE_S = 2.0  # how long all writes together may wait for a slow terminal once the run is to end
ENDS_PATIENCE_S = 3.0
AT_ONCE_PATIENCE_S = 0.3
MOST_UNSAID = 50
END_LINES = 10
RECENT_LINES = 60
LEADING = "rank-0.log"
LastLines = Callable[[str, str, int], Sequence[str]]  # returns the last lines of a log of a host
_SILENT = ("supervisor.log", "usage.jsonl")  # logs that are for files only


class Screen:
    """A pipe, a file, or a terminal on which nothing is redrawn."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self._outlet = Outlet(self.stream)
        self.take_hurried: Callable[[], str] = str
        self._colour = supports_color(self.stream)
        self._cut: set[tuple[str, str]] = set()  # logs of which not all was shown
        self._recent: dict[str, deque[str]] = {}  # by host, where all of LEADING was shown: its last lines
        self._unsaid: deque[Painted] = deque(maxlen=MOST_UNSAID)
        self._stopping = False
        self._cutters: dict[tuple[str, str], LineBuffer] = {}
        self._unfinished: dict[tuple[str, str], LineBuffer] = {}  # of them those with a line without end
        self._launcher_quiet = False
        self._ends_patience_s = ENDS_PATIENCE_S

    def notify(self, text: str, *, bad: bool = False) -> None:
        """Print one message of our own."""
        self.print_line([("1;31" if bad else "1", "==>"), ("", f" {text}")])

    def print_line(self, line: StyledLine) -> None:
        """Print one line."""
        self._print(paint_line(line, colour=self._colour))

    def output(self, host: str, log: str, data: bytes, now: float) -> None:
        """Show what a log got."""
        if self.is_closed:  # to paint a long log all the same takes minutes
            return
        if log in _SILENT or log.startswith("stacks-") or (log == "launcher.log" and self._launcher_quiet):
            return
        if self._stopping and (self._outlet.patience_s <= 0 or (host, log) in self._cut):
            self._note_cut({(host, log)})
            return
        cutter = self._cutters.setdefault((host, log), LineBuffer())
        lines = self._show_new(host, log, cutter, data, now)
        if log == LEADING:  # only runs of one rank ask, and each of many ranks would keep half a megabyte
            self._recent.setdefault(host, deque(maxlen=RECENT_LINES)).extend(lines)
        if cutter.is_empty:
            self._unfinished.pop((host, log), None)
        else:
            self._unfinished[host, log] = cutter

    def tick(self, now: float) -> None:
        """Show lines that have been unfinished for a while: progress bars and prompts."""
        for (host, log), cutter in self._unfinished.items():
            self._lines(host, log, cutter.list_unfinished(now), now)

    def mute_launcher(self) -> None:
        """Show no more of the launchers: after a failure they repeat it in forty lines; files have them."""
        self._launcher_quiet = True

    def hurry_when(self, urgent: Callable[[], str], take: Callable[[], str] = str) -> None:
        """Give up what waits for a slow terminal, for Ctrl-C; `take` removes it, for its own question."""
        self._outlet.urgent, self.take_hurried = urgent, take

    @property
    def disk_is_full(self) -> bool:
        """Whether not all was written, for want of space."""
        return self._outlet.is_full

    @property
    def is_closed(self) -> bool:
        """Whether writing has shown that the terminal is gone."""
        return self._outlet.is_closed

    @property
    def hurried(self) -> str:
        """The signal that waits and is more urgent than showing, "" for none."""
        return self._outlet.urgent()

    def break_line(self) -> None:
        """Go to the next line, where another program has written on this one."""
        self._outlet.write("\n")

    def stop(self, *, at_once: bool = False) -> None:
        """Wait for a slow terminal no longer than a moment: the run is to end."""
        if not self._stopping:
            self._outlet.patience_s = STOPPING_PATIENCE_S
        self._stopping = True
        if at_once:
            self._ends_patience_s = AT_ONCE_PATIENCE_S
            self._outlet.patience_s = min(self._outlet.patience_s, AT_ONCE_PATIENCE_S)

    def has_shown(self, host: str, lines: Sequence[str]) -> bool:
        """Return whether these are among the last lines of rank 0 on a host, all of which was shown."""
        recent = {line.strip() for line in self._recent.get(host, ())}
        return all(sanitize(line).strip() in recent for line in lines if line.strip())

    def show_ends(self, last_lines: LastLines) -> None:
        """Show how the logs end of which not all was shown, and what has not been said."""
        if self._stopping:
            self._outlet.patience_s = self._ends_patience_s
        unsaid, self._unsaid = self._unsaid, deque(maxlen=MOST_UNSAID)
        for line in unsaid:
            self._print(line)
        for host, log in sorted(self._cut):
            self.print_line(f"... not all of {host}/{log} was shown; it ends with:")
            lines = last_lines(host, log, END_LINES)
            for line in self._painted(host, log, lines):
                self._print(line)
        self._cut.clear()
        self.clear()

    def phase(self, name: str, now: float) -> None:
        """Take what the run is at; lines say that when it is over."""

    def take_usage(self, usage: Sequence[RankUsage]) -> None:
        """Take what the ranks use; the outcome has it."""

    def clear(self) -> None:
        """Leave the terminal to another writer for a while: a question, an error, the end."""

    def finish(self) -> None:
        """Show what logs ended with instead of a line. What comes after that is another start's."""
        for (host, log), cutter in self._cutters.items():
            self._lines(host, log, cutter.flush(), float("inf"))
        self._cutters.clear()
        self._unfinished.clear()
        self._launcher_quiet = False
        self.clear()

    def _show_new(self, host: str, log: str, cutter: LineBuffer, data: bytes, now: float) -> Iterable[str]:
        """Show what a log got; return its last lines, as they came."""
        shown: list[Painted] = []
        last: deque[str] = deque(maxlen=RECENT_LINES)
        for block in cutter.feed_blocks(data, now, coloured=self._colour):
            if isinstance(block, str):
                last.extend(block[:-1].rsplit("\n", RECENT_LINES)[-RECENT_LINES:])
                start = paint_line([self._origin(host, log), ("", " ")], colour=self._colour)
                text = block[:-1].expandtabs(TAB) if "\t" in block else block[:-1]
                shown.append(Painted(start + text.replace("\n", f"\n{start}")))
            else:
                last.extend(block)
                shown += self._painted(host, log, block)
        self._shown(shown, {(host, log)})
        return last

    def _lines(self, host: str, log: str, lines: list[str], now: float) -> None:
        """Show lines of a log."""
        del now
        if lines:
            self._shown(self._painted(host, log, lines), {(host, log)})

    def _shown(self, lines: Iterable[Painted], logs: Iterable[tuple[str, str]]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        if text and not self._outlet.write(text):
            self._note_cut(logs)

    def _note_cut(self, logs: Iterable[tuple[str, str]]) -> None:
        self._cut.update(logs)
        self._recent.clear()

    def _painted(self, host: str, log: str, lines: Iterable[str]) -> Iterator[Painted]:
        origin = self._origin(host, log)
        for line in lines:
            yield paint_line([origin, ("", " "), *split_spans(line)], colour=self._colour)

    def _origin(self, host: str, log: str) -> Span:
        rank = log.removeprefix("rank-").removesuffix(".log") if log.startswith("rank-") else ""
        colour = COLOURS[int(rank) % len(COLOURS)] if rank.isdecimal() else "2"
        return (colour, f"[{host} r{rank}]" if rank else f"[{host}]")

    def _print(self, line: Painted) -> None:
        if not self._outlet.write(f"{line}\n"):
            self._unsaid.append(line)
