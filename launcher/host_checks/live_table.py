"""A table on a terminal that fills while hosts answer."""

import sys
import time
from typing import TYPE_CHECKING, Self

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.text import one_line, open_console, supports_color
from launcher.transports.base import Closing
from preflight.facts.host import HostFacts

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

ROWS = 24  # hosts shown at once: those still awaited come first, so that a large fleet fits a small terminal


class HostTable(Closing):
    """Shows who has answered, on stderr, only where that is a terminal and several hosts are asked."""

    def __init__(self, hosts: tuple[HostEntry, ...]) -> None:
        self._state: dict[str, str] = {entry.name: "" for entry in hosts}
        self._started = time.monotonic()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if supports_color(sys.stderr) and len(self._state) > 1:
            from rich.live import Live  # noqa: PLC0415 - only a terminal pays for it

            self._live = Live(
                get_renderable=self._table,
                console=open_console(sys.stderr),
                transient=True,
                refresh_per_second=5,
            )
            self._live.start()
        return self

    def close(self) -> None:
        """Take the table off the terminal."""
        if self._live is not None:
            self._live.stop()

    def take_answer(self, entry: HostEntry, result: "HostFacts | GpulaunchError") -> None:
        """Take one host's answer; called as it comes."""
        seconds = time.monotonic() - self._started
        said = result.detail if isinstance(result, GpulaunchError) else "answered"
        self._state[entry.name] = f"{seconds:.1f} s  {one_line(said, 60)}"

    def _table(self) -> "Table":
        from rich.table import Table  # noqa: PLC0415

        waiting = [name for name, said in self._state.items() if not said]
        done = [name for name, said in self._state.items() if said]
        table = Table(box=None, show_header=False, pad_edge=False)
        for name in (*waiting, *reversed(done))[:ROWS]:
            table.add_row(one_line(name, 40), self._state[name] or "...")
        table.caption = f"{len(done)} of {len(self._state)} hosts answered"
        return table
