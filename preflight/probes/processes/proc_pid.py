"""One process, as /proc/PID shows it."""

import os
from typing import NamedTuple

from ..files import read_text

_PF_KTHREAD = 0x00200000  # include/linux/sched.h


class ProcessStat(NamedTuple):
    """What the walk keeps of /proc/PID/stat."""

    pid: int
    comm: str
    state: str
    ppid: int
    tty: bool
    kernel: bool
    cpu_ticks: int
    threads: int
    start_ticks: int


def read_stat(pid: int) -> ProcessStat:
    """Return /proc/PID/stat; raises OSError when the process is gone."""
    text = read_text("/proc/%d/stat" % pid)
    before, _, after = text.rpartition(")")  # a process may have brackets and blanks in its name
    rest = after.split()
    return ProcessStat(
        pid=pid,
        comm=before.partition("(")[2],
        state=rest[0],
        ppid=int(rest[1]),
        tty=rest[4] != "0",
        kernel=bool(int(rest[6]) & _PF_KTHREAD),
        cpu_ticks=int(rest[11]) + int(rest[12]),
        threads=int(rest[17]),
        start_ticks=int(rest[19]),
    )


def open_files(stat: ProcessStat) -> set[str]:
    """Return what the descriptors of a process point to, over its live threads.

    Threads share one table, so the leader's is read; but a leader that has ended has none although its
    threads keep everything open, so each thread is read.
    """
    folders = ["/proc/%d/fd" % stat.pid]
    if stat.state in "ZX":
        if stat.threads <= 1:
            return set()
        tasks = "/proc/%d/task" % stat.pid
        folders = ["%s/%s/fd" % (tasks, task) for task in os.listdir(tasks) if task != str(stat.pid)]
    targets = set()
    for folder in folders:
        for fd in os.listdir(folder):
            try:
                targets.add(os.readlink("%s/%s" % (folder, fd)))
            except OSError:
                continue
    return targets


def read_gpu_files(stat: ProcessStat) -> list[str]:
    """Return the GPU devices that a process has open; raises OSError."""
    return select_gpu_devices(open_files(stat))


def select_gpu_devices(paths: set[str]) -> list[str]:
    """Return those of `paths` that are GPU devices."""
    return sorted(path for path in paths if path.startswith(("/dev/nvidia", "/dev/dri/")))
