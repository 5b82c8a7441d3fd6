"""`gpulaunch top` at a terminal: draws, waits for keys and for time to pass, does what keys ask for."""

import time
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from launcher.errors import GpulaunchError
from launcher.terminal.output import ask_visibly, echo
from launcher.text import one_line
from launcher.top import frame
from launcher.top.fleet import Fleet
from launcher.top.full_screen import FullScreen
from launcher.top.key_actions import Action, Position, apply_key, settle_position
from launcher.top.row_order import Row, build_rows
from launcher.top.views import FleetView

_FIRST_S, _FIRST_REFRESH_S = 5.0, 0.3  # hosts come one by one: at first the screen is drawn more often
_MESSAGE_S = 6.0


class Dashboard:
    """The loop. `refreshed` takes each new view, for a file of metrics; `questions` are those of logins.

    `clean` (a host) and `show_stacks` (a run) are what keys do on the normal screen.
    """

    def __init__(
        self,
        fleet: Fleet,
        screen: FullScreen,
        *,
        clean: Callable[[str], None],
        show_stacks: Callable[[str], None],
        every_s: float,
        refreshed: Callable[[FleetView], None],
        questions: "SimpleQueue[Callable[[], None]]",
    ) -> None:
        self._fleet = fleet
        self._screen = screen
        self._clean, self._show_stacks = clean, show_stacks
        self._every_s = every_s
        self._refreshed = refreshed
        self._questions = questions
        self._position = Position()
        self._view = fleet.view()
        self._rows: tuple[Row, ...] = ()
        self._message = ("", 0.0)
        self._began = time.monotonic()

    def run(self) -> None:
        """Show until a person quits. Raises KeyboardInterrupt, TerminalClosed."""
        next_at = 0.0
        while True:
            now = time.monotonic()
            if now >= next_at:
                self._view = self._fleet.view()
                self._refreshed(self._view)
                next_at = now + self._pause_s(now)
            self._draw()
            for key in self._screen.read_keys(next_at - time.monotonic()):
                self._position, action = apply_key(self._position, key, self._rows, self._height())
                if action is not None and action != "quit":
                    self._act(action)
                if action == "quit":
                    return
                next_at = min(next_at, time.monotonic() + _FIRST_REFRESH_S)
            while not self._questions.empty():
                with self._screen.lend_terminal():
                    self._questions.get()()

    def _pause_s(self, now: float) -> float:
        waits = any(host.phase == "connecting" for host in self._view.hosts)
        starts = waits and now - self._began < _FIRST_S
        return min(self._every_s, _FIRST_REFRESH_S) if starts else self._every_s

    def _height(self) -> int:
        return frame.calculate_table_height(self._screen.size[1], len(self._view.runs))

    def _draw(self) -> None:
        size = self._screen.size
        self._rows = build_rows(self._view, self._position.options)
        self._position = settle_position(self._position, self._rows, self._height())
        if self._position.page == "help":
            self._screen.draw(
                frame.render_text_page(frame.wrap_help(size[0]), "gpulaunch top: keys", self._position, size)
            )
        elif self._position.page == "processes" and self._position.selected is not None:
            host, index = self._position.selected
            title = one_line(f"processes on {host}" + (f", GPU {index}" if index >= 0 else ""), size[0])
            lines = frame.render_processes(self._fleet.state(host), index)
            self._screen.draw(frame.render_text_page(lines, title, self._position, size))
        else:
            text, until = self._message
            message = text if time.monotonic() < until else ""
            self._screen.draw(frame.render_frame(self._view, self._rows, self._position, size, message))

    def _act(self, action: Action) -> None:
        row = next((row for row in self._rows if row.key == self._position.selected), None)
        if row is None:
            return
        if action == "inspect":
            self._fleet.inspect(row.host.name)
            self._say(f"{one_line(row.host.name, 60)} is being read anew")
        elif action == "clean":
            self._dialog(lambda: self._clean(row.host.name))
            self._fleet.inspect(row.host.name)
        else:
            runs = self._runs_on(row)
            if not runs:
                self._say("no run of gpulaunch is on this line; only such a run has stacks to show")
                return
            self._dialog(lambda: self._show_stacks(runs[0]))

    def _runs_on(self, row: Row) -> tuple[str, ...]:
        """Return the runs on a GPU, or those of a host whose line is of no GPU."""
        if row.gpu is not None:
            return row.gpu.run_ids
        return tuple(run.run_id for run in self._view.runs if row.host.name in run.hosts)

    def _say(self, text: str) -> None:
        self._message = text, time.monotonic() + _MESSAGE_S

    def _dialog(self, act: Callable[[], None]) -> None:
        """Carry out something that prints and asks, on the normal screen, until Enter is pressed."""
        with self._screen.lend_terminal():
            try:
                act()
            except GpulaunchError as error:
                echo([("1;31", "error:"), ("", f" {error.message}")])
                if error.fix:
                    echo(f"  fix: {error.fix}")
            with suppress(EOFError):
                ask_visibly((), "Enter goes back to the table")
