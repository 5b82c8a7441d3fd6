"""What control groups, version 2 or 1, allow this session."""

import os
from typing import Any, Iterator

from .cgroup_folder import find_own_cgroup, list_group_folders
from .fact import missing
from .files import read_text_or


def count_cpus() -> int:
    """Return how many CPUs this session may use: affinity, cut by the cgroup's quota."""
    count = len(os.sched_getaffinity(0))
    for folder in _cgroup_folders("cpu"):
        quota, period = [*read_text_or(folder + "/cpu.max").split(), "max", "0"][:2]
        if quota == "max":
            quota = read_text_or(folder + "/cpu.cfs_quota_us", "-1")
            period = read_text_or(folder + "/cpu.cfs_period_us", "0")
        if int(quota) > 0 and int(period) > 0:
            count = min(count, max(1, -(-int(quota) // int(period))))
    return count


def read_memory_limit() -> Any:
    """Return the smallest memory limit of this session's cgroup and those above it."""
    found = []
    for folder in _cgroup_folders("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            text = read_text_or(folder + "/" + name)
            if text.isdigit() and int(text) < 1 << 60:  # version 1 writes "none" as a number near 2**63
                found.append(int(text) >> 20)
    return min(found) if found else missing("no cgroup limits memory on this host", "not-found")


def _cgroup_folders(controller: str) -> Iterator[str]:
    """Yield the folders of this process's cgroup and those above it, version 2 and 1."""
    for kind in ("cgroup2", controller):
        yield from list_group_folders(find_own_cgroup(kind))
