"""Control group of a run, and the kernel's count of out-of-memory kills. Standard library, Python >= 3.9.

The group is a child of the supervisor's own group, so every limit of the user still applies to the run. It
needs cgroup v2 and a group that this user may write (root's, or one delegated to the user). With it no
process of a run is ever missed, whatever it does to its parents and its environment, and cgroup.kill (Linux
5.14) ends all of it at once, even processes that fork faster than they can be signalled. Without it the run
works as usual. No controller is enabled: a group that holds processes may not enable any for its children.

The count of out-of-memory kills needs no rights at all: it is read from the supervisor's own group
(v2: memory.events, v1: memory.oom_control), else for the whole host (/proc/vmstat).
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import Any, Optional

from preflight.probes.cgroup_folder import find_own_cgroup, list_group_folders

PREFIX = "gpulaunch-"
FRESH_S = 60.0
NUMBERS = (("memory.max", "memory.peak"), ("memory.limit_in_bytes", "memory.max_usage_in_bytes"))
"""Limit and highest use of a group, in bytes, of v2 (memory.peak: Linux 5.19) and v1."""
REACHED = 0.99  # of a limit: the kernel charges a CPU's pages ahead, up to 64 of them
REMOVE_S = 1.0  # a group stays busy for a moment after its last process


class Cgroup:
    """Control group of one run."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def make(cls, run_id: str) -> tuple[Optional["Cgroup"], str]:
        """Return a new group, or None and the reason."""
        parent = find_own_cgroup("cgroup2")
        if not parent:
            return None, "no cgroup v2 is to be seen"
        path = os.path.join(parent, PREFIX + run_id)
        remove_stale(parent)
        try:
            os.mkdir(path, 0o755)
        except OSError as error:
            return None, "%s: %s" % (path, error.strerror)
        made = cls(path)
        if not os.access(os.path.join(path, "cgroup.procs"), os.W_OK):
            made.remove()
            return None, "%s: processes cannot join it" % path
        return made, ""

    def add(self, pid: int) -> bool:
        """Move a process into the group, with all its future children; return whether that was permitted."""
        return self._write("cgroup.procs", "%d" % pid)

    def pids(self) -> set[int]:
        """Return every process in the group and in its subgroups."""
        found: set[int] = set()
        for place, _, _ in os.walk(self.path):
            procs = os.path.join(place, "cgroup.procs")
            with contextlib.suppress(OSError, ValueError), open(procs) as file:
                found.update(int(line) for line in file)
        return found - {0}  # processes of another PID namespace

    def kill(self) -> bool:
        """Kill the whole group at once (SIGKILL); return whether the kernel supports that."""
        return self._write("cgroup.kill", "1")

    def remove(self) -> bool:
        """Remove the empty group; return whether it is gone."""
        give_up = time.monotonic() + REMOVE_S
        while True:
            try:
                for place, _, _ in os.walk(self.path, topdown=False):
                    os.rmdir(place)
            except OSError as error:
                if error.errno == errno.EBUSY and time.monotonic() < give_up and not self.pids():
                    time.sleep(0.02)
                    continue
            return not os.path.isdir(self.path)

    def _write(self, name: str, text: str) -> bool:
        try:
            with open(os.open(os.path.join(self.path, name), os.O_WRONLY | os.O_CLOEXEC), "w") as file:
                file.write(text)
        except OSError:
            return False
        return True


def find_group(state: dict[str, Any]) -> Optional[Cgroup]:
    """Return the control group that the state.json of a run names, None where it names none of that run."""
    path, run_id = str(state.get("cgroup") or ""), state.get("run_id")
    return Cgroup(path) if os.path.basename(path) == "%s%s" % (PREFIX, run_id) else None


def remove_stale(parent: str) -> None:
    """Remove empty groups of runs whose supervisor and guardian were killed together."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            path = os.path.join(parent, name)
            # A new group may be waiting for its first process.
            if name.startswith(PREFIX) and time.time() - os.stat(path).st_mtime > FRESH_S:
                with contextlib.suppress(OSError):
                    os.rmdir(path)


class OomKills:
    """Count of the kernel's out-of-memory kills, in the supervisor's group or on the whole host."""

    def __init__(self) -> None:
        self.scope = "group"
        v2, v1 = find_own_cgroup("cgroup2"), find_own_cgroup("memory")
        self.path = os.path.join(v2, "memory.events") if v2 else ""
        if not os.path.exists(self.path) and v1:
            self.path = os.path.join(v1, "memory.oom_control")
        if read_count(self.path) is None:
            self.path, self.scope = "/proc/vmstat", "host"
        self.last = read_count(self.path)

    def is_known(self) -> bool:
        """Return whether the kernel shows its count (gVisor does not), so that no rise means something."""
        return self.last is not None

    def count_new(self) -> int:
        """Return the number of kills since the last call."""
        now = read_count(self.path)
        if now is None:
            return 0
        before, self.last = self.last, now
        return max(0, now - before) if before is not None else 0

    def limit(self) -> int:
        """Return the limit in bytes that the group has reached, 0 where none is known."""
        return find_reached_limit(os.path.dirname(self.path)) if self.scope == "group" else 0


def find_reached_limit(directory: str) -> int:
    """Return the limit in bytes that a group, or the nearest one above it, has reached; 0 for none."""
    for folder in list_group_folders(directory):
        for names in NUMBERS:
            limit, peak = (read_number(os.path.join(folder, name)) for name in names)
            if limit and peak >= REACHED * limit:
                return limit
    return 0


def read_number(path: str) -> int:
    """Return the number in a file, 0 where it has none ("max" is none)."""
    with contextlib.suppress(OSError, ValueError), open(path) as file:
        return int(file.read())
    return 0


def read_count(path: str) -> Optional[int]:
    """Return the value of `oom_kill` in a file, None where it has none."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(path) as file:
        for line in file:
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return None
