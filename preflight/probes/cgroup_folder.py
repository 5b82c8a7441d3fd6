"""Where a process sees the folder of its own control group, and those above it. Imports nothing of ours.

A path in /proc/self/cgroup is relative to the root of the cgroup namespace. A container of cgroup v1 mounts
only what is below its own group: the folder is that path without the mount's root, below the mount's point.
"""

import os
from typing import Iterator


def find_own_cgroup(kind: str, proc: str = "/proc/self") -> str:
    """Return this process's group folder in "cgroup2", or in a v1 controller; "" where it is not visible."""
    try:
        with open(os.path.join(proc, "cgroup"), errors="replace") as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
        with open(os.path.join(proc, "mountinfo"), errors="replace") as file:  # of any bytes
            mounts = [line.split() for line in file]
    except OSError:
        return ""
    wanted = "" if kind == "cgroup2" else kind
    ours = [path for _, controllers, path in lines if wanted in controllers.split(",")]
    for words in reversed(mounts):  # a later mount hides an earlier one at the same point
        if "-" not in words or not ours:
            continue
        after = words[words.index("-") + 1 :]
        fits = after[0] == "cgroup2" if kind == "cgroup2" else kind in after[-1].split(",")
        root, point = words[3].rstrip("/"), words[4]
        inside = ours[0][len(root) :]
        # ".." stands for groups outside the namespace, whose names are not known.
        if fits and (ours[0] + "/").startswith(root + "/") and ".." not in inside.split("/"):
            folder = os.path.normpath(point + inside)
            if _is_group(folder):
                return folder
    return ""


def list_group_folders(folder: str) -> Iterator[str]:
    """Yield a group's folder and those above it that are visible, the nearest first."""
    while folder and _is_group(folder):
        yield folder
        folder = os.path.dirname(folder)


def _is_group(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, "cgroup.procs"))
