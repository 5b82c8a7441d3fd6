"""One process as it is sent."""

import os
import time
from collections.abc import Callable
from typing import Any

from ..fact import Json, read_fact, with_timeout
from ..files import read_text
from ..namespaces import read_namespace_pids
from .proc_pid import ProcessStat
from .process_fields import TICKS, read_proc_head, read_psutil_head

_ENVIRON_KEYS = (
    *("GPULAUNCH_RUN_ID", "GPULAUNCH_SUPERVISOR", "GPULAUNCH_OUTPUT", "GPULAUNCH_REHEARSE"),
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    *("NODE_RANK", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
    *("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "SLURM_JOB_ID"),
    *("PBS_JOBID", "LSB_JOBID", "TMUX", "STY", "SYSTEMD_EXEC_PID"),
)
"""Names in a process's environment that are sent; nothing else of it leaves the host."""

# What is sent of one process at most: a mark is short, and a thousand processes may each hold megabytes.
_MOST_VALUE = 512
_MOST_ARGV = 4096

_CLOCK_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", 7)  # start ticks count suspended time too


def process_row(stat: ProcessStat, gpu_files: Any, psutil: Any) -> Json | None:
    """Return facts.Process, or None when the process has ended meanwhile.

    psutil has no start ticks, terminal, wchan or files of a dead leader's threads, and splits
    rewritten command lines by guess: those are read from /proc in any case.
    """
    try:
        head = read_psutil_head(stat.pid, psutil) if psutil else read_proc_head(stat)
    except OSError:
        return None
    if head is None:
        return None
    pid = stat.pid
    uptime_s = time.clock_gettime(_CLOCK_BOOTTIME)
    return {
        "pid": pid,
        "start_ticks": stat.start_ticks,
        **head,
        "argv": _calmly(stat, lambda: _argv(pid)),
        "age_s": round(max(0.0, uptime_s - stat.start_ticks / TICKS), 2),
        "tty": stat.tty,
        "environ": _calmly(stat, lambda: _environ_of(pid)),
        "gpu_files": gpu_files,
        "wchan": read_fact(lambda: _wchan(pid)),
        "namespace_pids": read_fact(lambda: read_namespace_pids(pid)),
        "cwd": read_fact(lambda: os.readlink("/proc/%d/cwd" % pid)),
    }


def _calmly(stat: ProcessStat, read: Callable[[], Any]) -> Any:
    """Read a process's memory; one in state D may hold the lock that this needs, so give up on it soon."""
    return with_timeout(0.5, read) if stat.state == "D" else read_fact(read)


def _argv(pid: int) -> Any:
    """Return a process's arguments; raises OSError."""
    text = read_text("/proc/%d/cmdline" % pid, _MOST_ARGV)
    if not text:
        return []
    return text.removesuffix("\0").split("\0")


def _environ_of(pid: int) -> dict[str, str]:
    """Return the launch marks in a process's environment; raises OSError."""
    items = (item.partition("=") for item in read_text("/proc/%d/environ" % pid).split("\0"))
    return {name: value[:_MOST_VALUE] for name, _, value in items if name in _ENVIRON_KEYS}


def _wchan(pid: int) -> str:
    """Return the kernel function that a process sleeps in, "" when it runs or the kernel does not show it."""
    text = read_text("/proc/%d/wchan" % pid)
    return "" if text == "0" else text
