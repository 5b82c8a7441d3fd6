"""Clocks for rates: that of the wall, and one that stops while other processes have the processor."""

import os
import time

from preflight.probes.cgroup_folder import find_own_cgroup, list_group_folders

from ..procfs import read_text

_THROTTLED = {"throttled_usec": 1e-6, "throttled_time": 1e-9}  # cgroup v2 and v1, in seconds
_MOST_LEVELS = 32
_MOST_READS, _AT_ONCE_S = 50, 0.0005
Reading = tuple[float, float, float]  # seconds on the wall, queued for a processor, held by a quota


class WallClock:
    """Time as it passes: a GPU, and a link, do not wait for a processor."""

    def read(self) -> Reading:
        """Return a start for `measure_since`."""
        return time.perf_counter(), 0.0, 0.0

    def measure_since(self, start: Reading) -> float:
        """Return the seconds since a start."""
        return time.perf_counter() - start[0]

    def measure_waits(self, start: Reading) -> dict[str, float]:
        """Return nothing: this clock leaves out no time."""
        del start
        return {}


class ProcessorClock(WallClock):
    """Time without that in which this thread waited for a processor that others had.

    /proc/thread-self/schedstat: nanoseconds on a processor, then those in the queue for one
    (https://docs.kernel.org/scheduler/sched-stats.html). While the quota of its control group is used up, a
    thread is in the queue, too, which cpu.stat counts (https://docs.kernel.org/scheduler/sched-bwc.html):
    that is its host's own limit, and passes. Where the kernel counts nothing this is the time on the wall.
    """

    def __init__(self) -> None:
        self._groups = list_quota_groups()

    def read(self) -> Reading:
        """Return a start: three clocks at one moment, again if others took the processor."""
        for _ in range(_MOST_READS):
            before = time.perf_counter()
            queued, throttled = read_queued_s(), sum(map(read_throttled_s, self._groups))
            if time.perf_counter() - before < _AT_ONCE_S:
                break
        return before, queued, throttled

    def measure_since(self, start: Reading) -> float:
        """Return the seconds since a start."""
        wall, waited, _ = self._passed(start)
        return max(wall - waited, 1e-9)

    def measure_waits(self, start: Reading) -> dict[str, float]:
        """Return the shares of the time on the wall: `waited` for others, `throttled` by the quota."""
        wall, waited, throttled = self._passed(start)
        return {"waited": round(waited / wall, 3), "throttled": round(throttled / wall, 3)} if wall else {}

    def _passed(self, start: Reading) -> Reading:
        wall, queued, throttled = (now - then for now, then in zip(self.read(), start))  # noqa: B905 - Python 3.9
        return wall, min(wall, max(0.0, queued - throttled)), min(wall, throttled)


def read_queued_s() -> float:
    """Return how long this thread has been in the queue for a processor, 0 where that is not counted."""
    words = read_text("/proc/thread-self/schedstat").split()
    return int(words[1]) / 1e9 if len(words) > 1 else 0.0


def read_throttled_s(path: str) -> float:
    """Return how long the quota of a control group has held it back, by its cpu.stat."""
    for line in read_text(path).splitlines():
        name, _, value = line.partition(" ")
        if name in _THROTTLED and value.isdigit():
            return int(value) * _THROTTLED[name]
    return 0.0


def list_quota_groups() -> list[str]:
    """Return cpu.stat of this process's control group and of those around it: each may have a quota."""
    folders = (folder for kind in ("cgroup2", "cpu") for folder in list_group_folders(find_own_cgroup(kind)))
    stats = (os.path.join(folder, "cpu.stat") for folder in folders)
    return [path for path in stats if os.path.exists(path)][:_MOST_LEVELS]
