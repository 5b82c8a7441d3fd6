"""Process trees of the ranks, and the resource usage and work of each rank with all its descendants."""

import os
import time
from typing import Iterable

from ..procfs import ProcStat, is_alive, list_pids, map_children, read_proc, read_stats

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SCAN_SHARE = 0.001  # of a core, for scans for new processes: a crowded host is scanned less often
AFRESH_S = 300.0  # after this a pid that was not a rank's may belong to another process


class IoActivity:
    """I/O and run-queue wait by rank since the last sample; a rank's processes count together."""

    def __init__(self) -> None:
        self.io: dict[str, int] = {}  # bytes read and written
        self.starved: dict[str, float] = {}  # percent of the time in which it was runnable without a CPU
        self._moved: dict[int, int] = {}  # by pid
        self._queued: dict[int, int] = {}  # by pid: ns

    def sample(self, rank_of: dict[int, int], ranks: Iterable[int], elapsed: float) -> None:
        """Sample these processes of these ranks."""
        moved_before, self._moved = self._moved, {}
        queued_before, self._queued = self._queued, {}
        self.io = {str(rank): 0 for rank in ranks}
        self.starved = {str(rank): 0.0 for rank in ranks}
        for pid, number in rank_of.items():
            rank = str(number)
            moved, queued = sum_words(pid, "io", 1, 3), sum_words(pid, "schedstat", 1)  # rchar and wchar; ns
            self._moved[pid], self._queued[pid] = moved, queued
            self.io[rank] += max(0, moved - moved_before.get(pid, moved))
            waited = max(0, queued - queued_before.get(pid, queued))
            self.starved[rank] += 100.0 * waited / 1e9 / elapsed


class RankSampler:
    """Sampler of the live ranks; each sample covers the time since the last one."""

    def __init__(self) -> None:
        self.families = ProcessTrees()
        self.activity = IoActivity()
        self._cpu: dict[int, tuple[int, int]] = {}  # by pid: start ticks, CPU ticks
        self._seen: set[int] = set()  # ranks that were in a sample
        self._last = 0.0

    def sample(self) -> dict[str, dict[str, float | None]]:
        """Return {rank: numbers} of every living rank."""
        now = time.monotonic()
        table = self.families.table(now)
        elapsed, self._last = now - self._last, now
        used = {rank: [0, 0] for rank in self.families.alive_ranks(table)}
        rank_of = {pid: rank for pid, rank in self.families.rank_of.items() if pid in table and rank in used}
        before, self._cpu = self._cpu, {}
        for pid, rank in rank_of.items():
            process = table[pid]
            self._cpu[pid] = (process.start_ticks, process.cpu)
            used[rank][0] += process.rss
            used[rank][1] += count_ticks(process, before.get(pid), elapsed)
        found: dict[str, dict[str, float | None]] = {}
        for rank, (pages, ticks) in sorted(used.items()):
            cpu = round(100.0 * ticks / TICKS / elapsed, 1) if rank in self._seen else None
            found[str(rank)] = {"rss_mib": pages * PAGE >> 20, "cpu": cpu}
        self._seen = set(used)
        self.activity.sample(rank_of, used, elapsed)
        return found


def sum_words(pid: int, name: str, *places: int) -> int:
    """Return the sum of some words of a process's file in /proc, 0 where that is not readable."""
    try:
        words = read_proc(pid, name).split()
        return sum(int(words[at]) for at in places)
    except (OSError, IndexError, ValueError):
        return 0


def count_ticks(process: ProcStat, before: tuple[int, int] | None, elapsed: float) -> int:
    """Return the CPU time of a process since the last sample: all of it if it was born since."""
    if before is not None and before[0] == process.start_ticks:
        return process.cpu - before[1]
    uptime_ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS
    return process.cpu if process.start_ticks > uptime_ticks - elapsed * TICKS else 0


class ProcessTrees:
    """Processes of the registered ranks; `rank_of` is by pid."""

    def __init__(self) -> None:
        self.rank_of: dict[int, int] = {}
        self._ranks: dict[int, tuple[int, int]] = {}  # by rank: pid, start ticks
        # Processes of others. None of them becomes a rank's descendant, so each is read once.
        self._others: set[int] = set()
        self._next_scan = self._afresh_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._ranks)

    def add(self, rank: int, pid: int, started: int) -> None:
        """Watch a rank that has registered itself."""
        self._ranks[rank] = (pid, started)
        self._afresh_at = 0.0  # it may count as another's so far
        self.look_for_new()

    def look_for_new(self) -> None:
        """Scan /proc for new processes the next time, whatever it costs."""
        self._next_scan = 0.0

    def alive_ranks(self, table: dict[int, ProcStat]) -> list[int]:
        """Return the ranks that are alive."""
        return [rank for rank, (pid, started) in self._ranks.items() if is_alive(table.get(pid), started)]

    def table(self, now: float) -> dict[int, ProcStat]:
        """Return the processes of all ranks; /proc is scanned for new ones as often as that is cheap."""
        if now < self._next_scan:
            return read_stats(self.rank_of)
        began = time.thread_time()  # CPU time of the scan: its wall time is much longer on a busy host
        table = self._scan(now)
        self._next_scan = now + (time.thread_time() - began) / SCAN_SHARE
        return table

    def _scan(self, now: float) -> dict[int, ProcStat]:
        if now >= self._afresh_at:
            self._afresh_at = now + AFRESH_S
            self._others = set()
        found = list_pids()
        table = read_stats(found - self._others)
        self._find(table)
        self._others = found - self.rank_of.keys()
        return {pid: stat for pid, stat in table.items() if pid in self.rank_of}

    def _find(self, table: dict[int, ProcStat]) -> None:
        children = map_children(table)
        self.rank_of = {}
        for rank, (pid, started) in self._ranks.items():
            todo = [pid] if is_alive(table.get(pid), started) else []
            while todo:
                member = todo.pop()
                if member not in self.rank_of:
                    self.rank_of[member] = rank
                    todo.extend(children.get(member, ()))
