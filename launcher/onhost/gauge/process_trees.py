"""Which processes are whose: a rank, and all that descends from it."""

from __future__ import annotations

import os
import time

from .processes import Process, is_alive, read_process

SCAN_SHARE = 0.002  # of a core, for looking for new processes: a crowded host is looked through more seldom


class Families:
    """Those of the ranks that have introduced themselves; `rank_of` is by pid."""

    def __init__(self) -> None:
        self.rank_of: dict[int, int] = {}
        self._ranks: dict[int, tuple[int, int]] = {}  # by rank: pid, start ticks
        self._next_scan = 0.0

    def __bool__(self) -> bool:
        return bool(self._ranks)

    def add(self, rank: int, pid: int, started: int) -> None:
        """Watch a rank that has introduced itself."""
        self._ranks[rank] = (pid, started)
        self.look_for_new()

    def look_for_new(self) -> None:
        """Look through all of /proc the next time, whatever it costs."""
        self._next_scan = 0.0

    def living(self, table: dict[int, Process]) -> list[int]:
        """Return the ranks that live."""
        return [rank for rank, (pid, started) in self._ranks.items() if is_alive(table.get(pid), started)]

    def table(self, now: float) -> dict[int, Process]:
        """Return the processes of all ranks; all of /proc is looked through as often as that is cheap."""
        began = time.thread_time()  # the CPU that it takes: beside others it takes much longer
        scan = now >= self._next_scan
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()] if scan else list(self.rank_of)
        read = {pid: read_process(pid) for pid in pids}
        table = {pid: process for pid, process in read.items() if process is not None}
        if scan:
            self._find(table)
            self._next_scan = now + (time.thread_time() - began) / SCAN_SHARE
        return {pid: process for pid, process in table.items() if pid in self.rank_of}

    def _find(self, table: dict[int, Process]) -> None:
        children: dict[int, list[int]] = {}
        for pid, process in table.items():
            children.setdefault(process.ppid, []).append(pid)
        self.rank_of = {}
        for rank, (pid, started) in self._ranks.items():
            todo = [pid] if is_alive(table.get(pid), started) else []
            while todo:
                member = todo.pop()
                if member not in self.rank_of:
                    self.rank_of[member] = rank
                    todo.extend(children.get(member, ()))
