"""Identity of a node, and the owner of a run directory among several nodes that share a home.

A node is a host or a container. Its state is in a directory named after its host name and machine id; hosts
cloned from one image have one machine id, containers none or their image's, so neither is enough alone. Nodes
that share both are distinguished by boot and PID namespace, and by the last heartbeat of a run:
a run of an earlier life of this node had its last heartbeat before this life began.
"""

import contextlib
import hashlib
import os
import re
import time
from typing import Any, Mapping

from ..procfs import read_text
from .processes import read_boot_id, read_own_namespaces, read_start_ticks

MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
NAMED = re.compile(r"(?P<host>.+)-[0-9a-f]{8}(?:\+\d+)?")
MAX_TWINS = 9  # nodes of one name that share a home
HEARTBEAT_S = 20.0
HEARTBEAT_LOST_S = 45.0  # two heartbeats, and some delay


def make_node_name() -> str:
    """Return the name under which this node keeps its state."""
    return name_of(os.uname().nodename, read_machine_id())


def name_of(host: str, machine: str) -> str:
    """Return the name of a node by its host name and machine id."""
    digest = hashlib.sha256(("%s\n%s" % (host, machine)).encode("utf-8", "surrogateescape")).hexdigest()
    return "%s-%s" % (re.sub(r"[^A-Za-z0-9.-]", "_", host).lstrip(".")[:64] or "node", digest[:8])


def read_machine_id() -> str:
    """Return the machine id, "" if it has none, as is common in containers."""
    for path in MACHINE_IDS:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            found = file.read(64).strip()
            if found:
                return found
    return ""


def parse_host(node: str) -> str:
    """Return the host name in the name of a node."""
    found = NAMED.fullmatch(node)
    return found["host"] if found else node


def read_node_location() -> dict[str, str]:
    """Return the boot and namespace of this process, in which alone its pids and start times are valid."""
    pids, times = read_own_namespaces()
    return {"boot_id": read_boot_id(), "pid_ns": pids, "time_ns": times, "host": os.uname().nodename}


def is_on_this_node(location: Mapping[str, Any]) -> bool:
    """Return whether pids recorded at this location are valid for this process."""
    here = read_node_location()
    return all(location.get(name) == here[name] for name in ("boot_id", "pid_ns", "time_ns"))


def make_life_tag() -> str:
    """Return a tag of this life of this node, for use in file names."""
    here = read_node_location()
    words = ":".join(here[name] for name in ("boot_id", "pid_ns", "time_ns"))
    return hashlib.sha256(words.encode()).hexdigest()[:12]


def is_of_earlier_life(directory: str, beat: str) -> bool:
    """Return whether the last heartbeat, the file `beat`, came before this node's life began.

    All times are by the clock of the file system: hosts' own clocks may differ.
    """
    with contextlib.suppress(OSError):
        silent_s = read_file_system_time(directory) - os.stat(beat).st_mtime
        return silent_s > max(measure_life(), HEARTBEAT_LOST_S)
    return False


def measure_life() -> float:
    """Return the seconds since PID 1 of this PID namespace started, or since the node booted."""
    try:
        up = float(read_text("/proc/uptime").split()[0])
    except (ValueError, IndexError):
        return float("inf")  # then no run counts as one of an earlier life
    return max(0.0, up - read_start_ticks(1) / os.sysconf("SC_CLK_TCK"))


def read_file_system_time(directory: str) -> float:
    """Return the time by the clock that timestamps files in this directory. Raises OSError."""
    path = os.path.join(directory, ".now.%s.%d" % (read_boot_id()[:8], os.getpid()))
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        return os.fstat(fd).st_mtime
    finally:
        os.close(fd)
        os.unlink(path)


class Heartbeat:
    """Heartbeat of a run: the file's time for nodes that cannot see its processes, its text for this one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._next = 0.0

    def beat(self) -> None:
        """Write the file, if that is due; a full disk keeps it only touched."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + HEARTBEAT_S
        with contextlib.suppress(OSError):
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                with contextlib.suppress(OSError):
                    os.pwrite(fd, b"%012.3f" % time.monotonic(), 0)
                os.utime(fd)
            finally:
                os.close(fd)
