"""Process identity by pid and start time from /proc, and signals that cannot reach a pid's next owner."""

import errno
import os
import signal
from typing import Iterator

from preflight.probes.namespaces import is_own_proc, read_own_namespace

from ..procfs import is_alive, read_stat, read_text

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def call_prctl(option: int, value: int) -> bool:
    """Return whether the kernel accepted the call; without ctypes the marker alone finds strays."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def read_boot_id() -> str:
    """Return this boot's id: pids of an earlier boot mean nothing."""
    return read_text("/proc/sys/kernel/random/boot_id")


def read_own_namespaces() -> tuple[str, str]:
    """Return the inodes of this process's PID and time namespace, which scope pids and start times.

    "0": the kernel has no such namespaces; "": unknown, also where /proc numbers the processes of another
    one (`unshare --pid` without --mount-proc).
    """
    if not is_own_proc():
        return "", ""
    return read_own_namespace("pid"), read_own_namespace("time")


def is_same(pid: int, ticks: int) -> bool:
    """Return whether this very process, and not a later one with its pid, exists and is not a zombie."""
    return is_alive(read_stat(pid), ticks)


def is_stopped(pid: int) -> bool:
    """Return whether a signal or a debugger has stopped a process."""
    found = read_stat(pid)
    return found is not None and found.state in "Tt"


def read_start_ticks(pid: int) -> int:
    """Return the start time of a process in clock ticks since boot, 0 when it is gone."""
    found = read_stat(pid)
    return found.start_ticks if found else 0


def mark_of(pid: int, ticks: int) -> str:
    """Return the identity of a process of this PID namespace, in the form of the marker in its children.

    The boot id is the same in all containers of a machine and their pids are not, so the namespaces are part
    of the identity (preflight/probes/supervisor_mark.py reads it).
    """
    return ":".join([read_boot_id(), *read_own_namespaces(), str(pid), str(ticks)])


def run_markers(run_id: str, run_dir: str) -> dict[str, str]:
    """Return the variables that identify the processes of a run, which this one starts."""
    me = mark_of(os.getpid(), read_start_ticks(os.getpid()))
    return {"GPULAUNCH_RUN_ID": run_id, "GPULAUNCH_RUN_DIR": run_dir, "GPULAUNCH_SUPERVISOR": me}


def send_signal(pid: int, ticks: int, number: int) -> None:
    """Signal one process by identity: the pidfd pins it, then the start time is read again."""
    if pid <= 1 or pid == os.getpid():
        return
    try:
        if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            fd = os.pidfd_open(pid)
            try:
                if is_same(pid, ticks):
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)
            return
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            return
    try:
        if is_same(pid, ticks):
            os.kill(pid, number)
    except OSError:
        pass


def signal_all(alive: dict[int, int], number: int) -> None:
    """Signal processes of {pid: start ticks}; one that is to end is also woken if it is stopped."""
    for pid, ticks in alive.items():
        send_signal(pid, ticks, number)
        if number == signal.SIGTERM:
            send_signal(pid, ticks, signal.SIGCONT)  # a stopped process handles no other signal


def reap_children() -> Iterator[tuple[int, int]]:
    """Yield (pid, exit code) of every child that has ended; negative: ended by that signal."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)
