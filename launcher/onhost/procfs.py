"""/proc/PID/stat, with one reader for all programs streamed to hosts. Standard library, Python >= 3.9.

The agent has a reader of its own (preflight/probes/processes/proc_pid.py): it keeps other fields, and
`preflight` imports nothing of `launcher`.
"""

import os
from collections import deque
from typing import Iterable, Iterator, NamedTuple


class ProcStat(NamedTuple):
    """Fields of /proc/PID/stat; times in clock ticks. `status` is meaningful in a zombie only."""

    state: str
    ppid: int
    cpu: int  # user and system
    threads: int
    start_ticks: int  # since boot: with the pid, the identity of a process
    rss: int  # pages
    status: int  # the raw wait status

    @property
    def lives(self) -> bool:
        """Whether any thread of it is left: until then even a zombie holds its files, ports and GPUs."""
        return self.state not in "ZX" or self.threads > 1


def read_stat(pid: int) -> ProcStat | None:
    """Return the fields of a process, None when it is gone."""
    try:
        # Its name may contain parentheses and spaces.
        field = read_proc(pid, "stat").rpartition(b")")[2].split()
        return ProcStat(
            state=field[0].decode(),
            ppid=int(field[1]),
            cpu=int(field[11]) + int(field[12]),
            threads=int(field[17]),
            start_ticks=int(field[19]),
            rss=int(field[21]),
            status=int(field[-1]),
        )
    except (OSError, IndexError, ValueError, OverflowError):
        return None


def read_proc(pid: int, name: str) -> bytes:
    """Return a short file of a process, at most a page of it. Raises OSError.

    By three system calls: a file object takes seven, and most reads of a supervisor and its gauge are these.
    """
    fd = os.open("/proc/%d/%s" % (pid, name), os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def read_text(path: str) -> str:
    """Return a small file's text, "" where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(65536).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def list_pids() -> set[int]:
    """Return the ids of all processes."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def read_stats(wanted: Iterable[int]) -> dict[int, ProcStat]:
    """Return the fields of these processes, by pid, without those that are gone."""
    return {pid: stat for pid in wanted if (stat := read_stat(pid)) is not None}


def read_every_stat() -> dict[int, ProcStat]:
    """Return the fields of all processes, by pid."""
    return read_stats(list_pids())


def map_children(table: dict[int, ProcStat]) -> dict[int, list[int]]:
    """Return the children of each process that has any, zombies included."""
    children: dict[int, list[int]] = {}
    for pid, stat in table.items():
        children.setdefault(stat.ppid, []).append(pid)
    return children


def list_descendants(pid: int, table: dict[int, ProcStat]) -> Iterator[int]:
    """Yield the descendants of a process, the nearest first."""
    children = map_children(table)
    todo = deque(sorted(children.pop(pid, ())))
    while todo:
        child = todo.popleft()
        yield child
        todo.extend(sorted(children.pop(child, ())))  # once: pids that are used again may form a ring


def is_alive(stat: ProcStat | None, start_ticks: int) -> bool:
    """Return whether a process has this start time and lives."""
    return stat is not None and stat.start_ticks == start_ticks and stat.lives
