"""What the kernel says of one process."""

from __future__ import annotations

from typing import NamedTuple


class Process(NamedTuple):
    """What /proc/PID/stat says; times in clock ticks."""

    state: str
    ppid: int
    cpu: int
    started: int
    rss: int  # pages


def read_process(pid: int) -> Process | None:
    """Return what the kernel says of a process, None when it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            field = file.read().rpartition(b")")[2].split()
        return Process(
            field[0].decode(),
            int(field[1]),
            int(field[11]) + int(field[12]),
            int(field[19]),
            int(field[21]),
        )
    except (OSError, IndexError, ValueError):
        return None


def is_alive(process: Process | None, started: int) -> bool:
    """Return whether it is this very process, and no zombie."""
    return process is not None and process.started == started and process.state not in "ZX"


def bytes_moved(pid: int) -> int:
    """Return how much a process has read and written by now, 0 where that cannot be seen."""
    try:
        with open("/proc/%d/io" % pid, "rb") as file:
            words = file.read().split()
        return int(words[1]) + int(words[3])  # rchar, wchar
    except (OSError, IndexError, ValueError):
        return 0


def ns_queued(pid: int) -> int:
    """Return for how long the main thread of a process has waited for a CPU, 0 where that cannot be seen."""
    try:
        with open("/proc/%d/schedstat" % pid, "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
