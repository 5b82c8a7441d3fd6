"""All hosts of the screen, each followed by a thread of its own."""

import threading
import time
from collections.abc import Mapping, Sequence

from launcher.config.inventory import HostEntry
from launcher.local.descriptors import raise_descriptor_limit
from launcher.local.fanout_places import Places
from launcher.planning.run_record import RunRecord, read_run_records
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import WIDTH, fanout
from launcher.runs.remote_run import MergedRuns, merge_node_runs
from launcher.top.fleet_view import build_view
from launcher.top.host_monitor import HostMonitor, HostState
from launcher.top.views import FleetView
from launcher.transports.base import Closing, Connection

_CLOSE_S = 1.0
"""How long the end waits for connections to close; those that hang end with the process."""


class Fleet(Closing):
    """The hosts and what is known of them now. `every_s`: between two samples of a host."""

    def __init__(
        self, entries: Sequence[HostEntry], opener: OpenConnection, *, every_s: float, width: int = WIDTH
    ) -> None:
        raise_descriptor_limit(3 * len(entries))
        places = Places(width)
        self._opener = opener
        self._width = width
        self._monitors = {
            entry.name: HostMonitor(entry, opener, places, every_s=every_s) for entry in entries
        }
        self._known: Mapping[str, RunRecord] = {}
        self._known_at: tuple[float, ...] | None = None
        self._merged = MergedRuns((), {})

    def start(self) -> None:
        """Start to follow all hosts; returns at once."""
        for monitor in self._monitors.values():
            monitor.start()

    def collect_once(self) -> None:
        """Ask every host once, side by side. What went wrong is in the view."""
        fanout(HostMonitor.collect_once, self._monitors.values(), width=self._width, reopens=True)

    def view(self) -> FleetView:
        """Return everything as it is now."""
        states = [monitor.state for monitor in self._monitors.values()]
        return build_view(states, self._runs(states), time.monotonic(), time.time())

    def state(self, host: str) -> HostState:
        """Return what is known of a host."""
        return self._monitors[host].state

    def inspect(self, host: str) -> None:
        """Read a host's facts again soon, or connect to it again now."""
        self._monitors[host].inspect()

    def open(self, entry: HostEntry) -> Connection:
        """Return the held connection, whose close() leaves it open, or a new one. Raises HostError."""
        monitor = self._monitors.get(entry.name)
        held = monitor.connection if monitor is not None else None
        return self._opener(entry) if held is None else _HeldConnection(held)

    def close(self) -> None:
        """End all; the programs on the hosts end with their connections."""
        monitors = list(self._monitors.values())
        for monitor in monitors:
            monitor.stop()
        threads = [threading.Thread(target=monitor.close, daemon=True) for monitor in monitors]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + _CLOSE_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _runs(self, states: Sequence[HostState]) -> MergedRuns:
        """Return the runs that the hosts report; put together again only where a host has reported anew."""
        reported = tuple(state.runs_at for state in states)
        if reported != self._known_at:
            self._known_at = reported
            self._known = read_run_records()
            answers = [(state.entry, state.runs, state.runs_at) for state in states if state.runs]
            names = [state.entry.name for state in states]
            self._merged = merge_node_runs(answers, self._known, names=names)
        return self._merged


class _HeldConnection(Closing):
    """A connection of the fleet that a dialog uses for a while."""

    def __init__(self, held: Connection) -> None:
        self.name = held.name
        self.command_line = held.command_line
        self.run = held.run
        self.start = held.start

    def close(self) -> None:
        """Leave it open."""
