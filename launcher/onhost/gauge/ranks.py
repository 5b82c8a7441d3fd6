"""Resource usage of each rank with all its descendants."""

import os
import time

from ..procfs import ProcStat
from .io_activity import IoActivity
from .process_trees import ProcessTrees

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


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
            used[rank][1] += ticks_used(process, before.get(pid), elapsed)
        found: dict[str, dict[str, float | None]] = {}
        for rank, (pages, ticks) in sorted(used.items()):
            cpu = round(100.0 * ticks / TICKS / elapsed, 1) if rank in self._seen else None
            found[str(rank)] = {"rss_mib": pages * PAGE >> 20, "cpu": cpu}
        self._seen = set(used)
        self.activity.sample(rank_of, used, elapsed)
        return found


def ticks_used(process: ProcStat, before: tuple[int, int] | None, elapsed: float) -> int:
    """Return the CPU time of a process since the last sample: all of it if it was born since."""
    if before is not None and before[0] == process.start_ticks:
        return process.cpu - before[1]
    uptime_ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS
    return process.cpu if process.start_ticks > uptime_ticks - elapsed * TICKS else 0
