"""The fields of a process that psutil has too, by psutil or by /proc."""

import os
import re
from typing import Any

from ..fact import Json
from ..files import read_text, read_text_or
from ..users import read_user_name
from .proc_pid import ProcessStat, read_stat

TICKS = os.sysconf("SC_CLK_TCK")

_PSUTIL_STATES = {
    "running": "R",
    "sleeping": "S",
    "disk-sleep": "D",
    "stopped": "T",
    "tracing-stop": "t",
    "zombie": "Z",
    "dead": "X",
    "wake-kill": "K",
    "waking": "W",
    "idle": "I",
    "parked": "P",
}


def import_psutil() -> Any:
    """Return psutil where the host's Python has one that works, else None."""
    try:
        import psutil  # noqa: TID251 - the one place

        return psutil if hasattr(psutil.Process, "oneshot") else None
    except Exception:
        return None


def read_proc_head(stat: ProcessStat) -> Json:
    """Return the fields that psutil has too, from /proc; raises OSError."""
    status = read_text("/proc/%d/status" % stat.pid)
    found = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    uid = int(found.group(1)) if found else os.stat("/proc/%d" % stat.pid).st_uid
    return {
        "ppid": stat.ppid,
        "uid": uid,
        "user": read_user_name(uid),
        "state": stat.state,
        "comm": stat.comm,
        "threads": stat.threads,
        "cpu_ticks": stat.cpu_ticks,
    }


def read_psutil_head(pid: int, psutil: Any) -> Json | None:
    """Return the same fields by psutil, None when the process has ended."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            name = process.name()
            uid = process.uids().real
            return {
                "ppid": process.ppid(),
                "uid": uid,
                "user": read_user_name(uid),
                "state": _PSUTIL_STATES.get(process.status(), "?"),
                "comm": _kernel_name(pid, name),
                "threads": process.num_threads(),
                "cpu_ticks": round((times.user + times.system) * TICKS),
            }
    except (psutil.ZombieProcess, psutil.AccessDenied):  # the first is also a NoSuchProcess
        return read_proc_head(read_stat(pid))
    except psutil.NoSuchProcess:
        return None


def _kernel_name(pid: int, name: str) -> str:
    """Return the kernel's name for a process: psutil lengthens one of 15 bytes from the command line."""
    return name if len(name.encode("utf-8", "replace")) < 15 else read_text_or("/proc/%d/comm" % pid, name)
