"""Signs of work other than CPU use: bytes moved, and time spent waiting for a CPU."""

from typing import Iterable

from ..procfs import read_proc


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
            moved, queued = count_bytes_moved(pid), run_queue_wait_ns(pid)
            self._moved[pid], self._queued[pid] = moved, queued
            self.io[rank] += max(0, moved - moved_before.get(pid, moved))
            waited = max(0, queued - queued_before.get(pid, queued))
            self.starved[rank] += 100.0 * waited / 1e9 / elapsed


def count_bytes_moved(pid: int) -> int:
    """Return the bytes that a process has read and written so far, 0 where that is not readable."""
    try:
        words = read_proc(pid, "io").split()
        return int(words[1]) + int(words[3])  # rchar, wchar
    except (OSError, IndexError, ValueError):
        return 0


def run_queue_wait_ns(pid: int) -> int:
    """Return for how long a process's main thread has waited for a CPU (ns), 0 where that is not readable."""
    try:
        return int(read_proc(pid, "schedstat").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
