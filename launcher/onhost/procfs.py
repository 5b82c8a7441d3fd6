"""/proc/PID/stat, with one reader for all programs streamed to hosts. Standard library, Python >= 3.9.

The agent has a reader of its own (preflight/probes/processes/proc_pid.py): it keeps other fields, and
`preflight` imports nothing of `launcher`.
"""

from __future__ import annotations

import os
from typing import NamedTuple


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
        """Whether the process is not a zombie."""
        return self.state not in "ZX"


def read_stat(pid: int) -> ProcStat | None:
    """Return the fields of a process, None when it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            field = file.read().rpartition(b")")[2].split()  # its name may contain parentheses and spaces
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


def read_every_stat() -> dict[int, ProcStat]:
    """Return the fields of all processes, by pid."""
    read = {int(name): read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: stat for pid, stat in read.items() if stat is not None}


def children_of(table: dict[int, ProcStat]) -> dict[int, list[int]]:
    """Return the children of each process that has any, zombies included."""
    children: dict[int, list[int]] = {}
    for pid, stat in table.items():
        children.setdefault(stat.ppid, []).append(pid)
    return children


def is_alive(stat: ProcStat | None, start_ticks: int) -> bool:
    """Return whether a process has this start time and is not a zombie."""
    return stat is not None and stat.start_ticks == start_ticks and stat.lives
