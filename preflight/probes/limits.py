"""Memory, shared memory, load and the limits of this session."""

import os
import re
import resource

from .cgroup import cpu_count, memory_limit_mib
from .fact import Json, fact
from .files import read_text


def limits() -> Json:
    """Return facts.Limits."""
    memory = {
        key: int(kib) // 1024 for key, kib in re.findall(r"(\w+):\s+(\d+) kB", read_text("/proc/meminfo"))
    }
    shm = fact(lambda: os.statvfs("/dev/shm"))  # noqa: S108 - measured, not used
    unlimited = resource.RLIM_INFINITY
    memlock, nofile, nproc = (
        resource.getrlimit(which)
        for which in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    return {
        "cpus": cpu_count(),
        "memory_total_mib": memory.get("MemTotal", 0),
        "memory_available_mib": memory.get("MemAvailable", memory.get("MemFree", 0)),
        "memory_limit_mib": fact(memory_limit_mib),
        "swap_total_mib": memory.get("SwapTotal", 0),
        "swap_used_mib": memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        "load_1min": os.getloadavg()[0],
        "shm_total_mib": shm if isinstance(shm, dict) else shm.f_blocks * shm.f_frsize >> 20,
        "shm_free_mib": shm if isinstance(shm, dict) else shm.f_bavail * shm.f_frsize >> 20,
        "memlock_kib": -1 if memlock[0] == unlimited else memlock[0] // 1024,
        "nofile": -1 if nofile[0] == unlimited else nofile[0],
        "nofile_hard": -1 if nofile[1] == unlimited else nofile[1],
        "nproc": -1 if nproc[0] == unlimited else nproc[0],
    }
