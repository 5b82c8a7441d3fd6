"""Process trees of the ranks: each rank with all its descendants."""

from __future__ import annotations

import time

from ..procfs import ProcStat, children_of, is_alive, read_every_stat, read_stat

SCAN_SHARE = 0.002  # of a core, for scans for new processes: a crowded host is scanned less often


class ProcessTrees:
    """Processes of the registered ranks; `rank_of` is by pid."""

    def __init__(self) -> None:
        self.rank_of: dict[int, int] = {}
        self._ranks: dict[int, tuple[int, int]] = {}  # by rank: pid, start ticks
        self._next_scan = 0.0

    def __bool__(self) -> bool:
        return bool(self._ranks)

    def add(self, rank: int, pid: int, started: int) -> None:
        """Watch a rank that has registered itself."""
        self._ranks[rank] = (pid, started)
        self.look_for_new()

    def look_for_new(self) -> None:
        """Scan all of /proc the next time, whatever it costs."""
        self._next_scan = 0.0

    def alive_ranks(self, table: dict[int, ProcStat]) -> list[int]:
        """Return the ranks that are alive."""
        return [rank for rank, (pid, started) in self._ranks.items() if is_alive(table.get(pid), started)]

    def table(self, now: float) -> dict[int, ProcStat]:
        """Return the processes of all ranks; all of /proc is scanned as often as that is cheap."""
        began = time.thread_time()  # CPU time of the scan: its wall time is much longer on a busy host
        scan = now >= self._next_scan
        table = read_every_stat() if scan else self._known()
        if scan:
            self._find(table)
            self._next_scan = now + (time.thread_time() - began) / SCAN_SHARE
        return {pid: process for pid, process in table.items() if pid in self.rank_of}

    def _known(self) -> dict[int, ProcStat]:
        read = {pid: read_stat(pid) for pid in self.rank_of}
        return {pid: stat for pid, stat in read.items() if stat is not None}

    def _find(self, table: dict[int, ProcStat]) -> None:
        children = children_of(table)
        self.rank_of = {}
        for rank, (pid, started) in self._ranks.items():
            todo = [pid] if is_alive(table.get(pid), started) else []
            while todo:
                member = todo.pop()
                if member not in self.rank_of:
                    self.rank_of[member] = rank
                    todo.extend(children.get(member, ()))
