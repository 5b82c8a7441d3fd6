"""I/O and run-queue wait of a process."""

from __future__ import annotations

from ..procfs import read_proc


def bytes_moved(pid: int) -> int:
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
