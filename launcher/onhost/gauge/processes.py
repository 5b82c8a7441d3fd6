"""What a process moves and waits for."""

from __future__ import annotations


def bytes_moved(pid: int) -> int:
    """Return how much a process has read and written by now, 0 where that cannot be seen."""
    try:
        with open("/proc/%d/io" % pid, "rb") as file:
            words = file.read().split()
        return int(words[1]) + int(words[3])  # rchar, wchar
    except (OSError, IndexError, ValueError):
        return 0


def run_queue_wait_ns(pid: int) -> int:
    """Return for how long the main thread of a process has waited for a CPU, 0 where that cannot be seen."""
    try:
        with open("/proc/%d/schedstat" % pid, "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
