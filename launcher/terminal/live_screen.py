"""A run on a terminal: lines scroll, and below them rank 0's bars and a status line are redrawn in place."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TextIO

from launcher.follow.usage import RankUsage
from launcher.terminal.bottom_area import BottomArea, Size, read_size
from launcher.terminal.cell_width import Painted, Span
from launcher.terminal.colours import split_spans
from launcher.terminal.line_buffer import LineBuffer
from launcher.terminal.line_deduplicator import LineDeduplicator, LogLine
from launcher.terminal.screen import LEADING, Screen
from launcher.terminal.status_line import StatusValues, StepAge, render_status
from launcher.terminal.step_progress import ProgressParser
from launcher.text import can_redraw, sanitize

FRAME_S = 0.1  # a rank that prints at full speed must not be slowed by what is drawn


class LiveScreen(Screen):
    """Shows lines above and a status area below. `folds`: lines that repeat another rank's are counted."""

    def __init__(self, stream: TextIO, *, folds: bool = True, size: Size | None = None) -> None:
        super().__init__(stream)
        self._area = BottomArea(self._outlet, size or (lambda: read_size(self.stream)), colour=self._colour)
        self._folding = LineDeduplicator() if folds else None
        self._gauges = ProgressParser()
        self._step_age = StepAge()
        self._usage: Sequence[RankUsage] = ()
        self._phase = ("", 0.0)
        self._pending: list[Painted] = []
        self._pending_logs: set[tuple[str, str]] = set()
        self._drawn = float("-inf")

    def phase(self, name: str, now: float) -> None:
        """Take what the run is at; "" ends the status line."""
        self._phase = (name, now)

    def take_usage(self, usage: Sequence[RankUsage]) -> None:
        """Take what the ranks use now."""
        self._usage = usage

    def output(self, host: str, log: str, data: bytes, now: float) -> None:
        """Show what a log got, with the next frame."""
        super().output(host, log, data, now)
        rank = log.removeprefix("rank-").removesuffix(".log")
        if log.startswith("rank-") and rank.isdigit():
            self._gauges.feed(int(rank), data)
        self._frame(now)

    def tick(self, now: float) -> None:
        """Show what has waited, and the status as it is now."""
        for (host, log), cutter in self._unfinished.items():
            drawn_here = log == LEADING or self._folding is not None
            lines = cutter.flush_idle(now) if drawn_here else cutter.list_unfinished(now)
            if lines:
                self._lines(host, log, lines, now)
        self._frame(now)

    def clear(self) -> None:
        """Show what waits, and take the status area away until something is shown again."""
        self._draw(())

    def finish(self) -> None:
        """Show what logs ended with, and say what was folded."""
        super().finish()
        self._phase, self._usage, self._gauges = ("", 0.0), (), ProgressParser()
        self._step_age = StepAge()
        if self._folding is None:
            return
        self._show(self._folding.flush())
        self.clear()
        count, self._folding = self._folding.folded, LineDeduplicator()
        if count:
            self.notify(
                f"{count} lines of other ranks repeat what was shown: in the logs, and with --all-ranks"
                if count > 1
                else "1 line of another rank repeats what was shown: in the log, and with --all-ranks"
            )
            self.clear()

    def _show_new(self, host: str, log: str, cutter: LineBuffer, data: bytes, now: float) -> Iterable[str]:
        lines = cutter.feed(data, now)  # one by one: each may repeat another rank's
        self._lines(host, log, lines, now)
        return lines

    def _lines(self, host: str, log: str, lines: list[str], now: float) -> None:
        if self._folding is None or not log.startswith("rank-"):
            self._wait_for_frame(host, log, lines)
        elif log == LEADING:
            self._folding.add_lead((host, log), lines, now)
            self._wait_for_frame(host, log, lines)
        else:
            self._show(self._folding.add((host, log), lines, now))

    def _show(self, lines: Iterable[LogLine]) -> None:
        for each in lines:
            host, log = each.source
            self._wait_for_frame(host, log, (each.line,))

    def _wait_for_frame(self, host: str, log: str, lines: Iterable[str]) -> None:
        self._pending.extend(self._painted(host, log, lines))
        self._pending_logs.add((host, log))

    def _print(self, line: Painted) -> None:
        """Print one line of our own at once."""
        self._draw(self._rows(time.monotonic()))  # what has waited is not lost with it
        if not self._area.draw((line,), self._rows(time.monotonic())):
            self._unsaid.append(line)

    def _frame(self, now: float) -> None:
        if now - self._drawn < FRAME_S:
            return
        if self._folding is not None:
            self._show(self._folding.ready(now))
        self._drawn = now
        self._draw(self._rows(now))

    def _draw(self, rows: Sequence[Sequence[Span]]) -> None:
        lines, self._pending = self._pending, []
        logs, self._pending_logs = self._pending_logs, set()
        if not self._area.draw(lines, rows):
            self._cut |= logs

    def _rows(self, now: float) -> list[list[Span]]:
        name, began = self._phase
        if not name:
            return []
        leading, bars = self._bars(now)
        folded = self._folding.folded if self._folding is not None else 0
        reading = self._gauges.read(now, [sanitize(bar) for bar in bars])
        if reading.step is None and self._usage:
            reading = replace(reading, step=self._usage[0].step)  # nothing is printed, but the guard counts
        counted = self._usage[0].step if self._usage else None
        steps = None if reading.step is None and counted is None else (reading.step, counted)
        quiet_s = self._step_age.update(now, steps if name == "run" else None)
        status = StatusValues(name, now - began, reading, self._usage, folded, quiet_s)
        below = render_status(status, self._area.columns)
        above = [[self._origin(*leading), ("", " "), *split_spans(bar)] for bar in bars]
        return [*above[: max(0, self._area.max_rows - len(below))], *below]

    def _bars(self, now: float) -> tuple[tuple[str, str], list[str]]:
        for key, cutter in self._unfinished.items():
            if key[1] == LEADING:
                begun = cutter.find_partial(now)
                return key, [*cutter.progress_bars(), *([begun] if begun else [])]
        return ("", ""), []


def choose_screen(stream: TextIO, *, plain: bool = False, all_ranks: bool = False) -> Screen:
    """Return the screen for a stream: a live one where it is a terminal, unless `plain` is set."""
    if plain or not can_redraw(stream):
        return Screen(stream)
    return LiveScreen(stream, folds=not all_ranks)
