"""Processes of a run, found by ancestry, by environment markers, and by control group."""

import os
import signal
import time

from ..procfs import list_descendants, read_every_stat, read_stat
from ..run_cgroup import Cgroup
from .processes import mark_of, read_own_namespaces, reap_children, send_signal
from .run_dir import read_state

KILL_WAIT_S = 15.0  # a process in state D may never go; it is reported instead of waited for


def find_run_processes(run_dir: str, spare: set[int], group: Cgroup | None = None) -> dict[int, int]:
    """Return {pid: start ticks} of this process's descendants and the run's other processes.

    Zombies are left out: they are dead, and this process reaps them once their parent has ended.
    """
    table = read_every_stat()
    inside = set(list_descendants(os.getpid(), table))
    starter = read_supervisor_mark(run_dir)
    inside.update(pid for pid in table if pid not in inside and has_run_marker(pid, run_dir, starter))
    inside.difference_update(spare)
    alive = {pid: table[pid].start_ticks for pid in inside if table[pid].lives}
    for pid in group.pids() - spare - set(alive) if group is not None else ():
        found = read_stat(pid)
        if found is not None and found.lives:
            alive[pid] = found.start_ticks
    return alive


def read_supervisor_mark(run_dir: str) -> str:
    """Return the supervisor marker of the run's processes; without its pid where that is unknown.

    Containers of one machine share its boot id, and may share a home and the path of a run directory: a
    process that was started in another PID namespace belongs to another node of the run.
    """
    pid, ticks = read_state(run_dir).get("supervisor") or (0, 0)
    if not all(read_own_namespaces()):
        return ""
    return mark_of(pid, ticks) if pid else mark_of(0, 0)[: -len("0:0")]


def has_run_marker(pid: int, run_dir: str, starter: str) -> bool:
    """Return whether a process has this run's markers: an id alone could be a run's in another home."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            marks = file.read().split(b"\0")
    except OSError:
        return False
    if b"GPULAUNCH_RUN_ID=" + os.fsencode(os.path.basename(run_dir)) not in marks:
        return False
    known = b"GPULAUNCH_SUPERVISOR=" + os.fsencode(starter)
    if not starter or not any(
        mark == known or (known[-1:] == b":" and mark.startswith(known)) for mark in marks
    ):
        return False
    return b"GPULAUNCH_RUN_DIR=" + os.fsencode(run_dir) in marks


def end_all(run_dir: str, spare: set[int], group: Cgroup | None = None) -> list[int]:
    """Kill everything of the run (SIGKILL) until nothing is left; return the pids that remain."""
    give_up = time.monotonic() + KILL_WAIT_S
    if group is not None:
        group.kill()
    while True:
        alive = find_run_processes(run_dir, spare, group)
        for _ in reap_children():
            pass
        if not alive or time.monotonic() > give_up:
            if group is not None:
                group.remove()
            return sorted(alive)
        for pid, ticks in alive.items():
            send_signal(pid, ticks, signal.SIGKILL)
        time.sleep(0.05)
