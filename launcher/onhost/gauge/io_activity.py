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
            moved, queued = sum_words(pid, "io", 1, 3), sum_words(pid, "schedstat", 1)  # rchar and wchar; ns
            self._moved[pid], self._queued[pid] = moved, queued
            self.io[rank] += max(0, moved - moved_before.get(pid, moved))
            waited = max(0, queued - queued_before.get(pid, queued))
            self.starved[rank] += 100.0 * waited / 1e9 / elapsed


def sum_words(pid: int, name: str, *places: int) -> int:
    """Return the sum of some words of a process's file in /proc, 0 where that is not readable."""
    try:
        words = read_proc(pid, name).split()
        return sum(int(words[at]) for at in places)
    except (OSError, IndexError, ValueError):
        return 0
