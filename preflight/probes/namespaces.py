"""PID and time namespaces: where a pid and a start time mean something. Imports nothing of ours."""

import os
import re

_INODE = re.compile(r"\w+:\[([0-9]{1,20})\]")


def read_own_namespace(kind: str) -> str:
    """Return the inode of our "pid" or "time" namespace, "0" where the kernel has none, "" if unreadable."""
    found = _INODE.fullmatch(link_target("/proc/self/ns/" + kind))
    if found:
        return found.group(1)
    return "" if os.path.exists("/proc/self/ns/" + kind) or not os.path.exists("/proc/self/ns") else "0"


def is_own_proc() -> bool:
    """Return whether /proc numbers processes as our own PID namespace does.

    `unshare --pid` without --mount-proc leaves the /proc of the parent namespace: what it calls 4242 is
    another process than the one that a signal to 4242 reaches.
    """
    return link_target("/proc/self") == str(os.getpid())


def link_target(path: str) -> str:
    """Return where a symbolic link points to, or "" where it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def is_pid_taken(pid: int) -> bool:
    """Return whether a process has this pid, also one that /proc hides (hidepid, a security module)."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # of another user
    return True


def read_namespace_pids(pid: int) -> list[int]:
    """Return the pids of a process, ours first and that of its own, innermost namespace last; raises OSError.

    A kernel before 4.1 does not say; then a process in our own namespace is known by the link.
    """
    with open("/proc/%d/status" % pid, "rb") as file:
        found = re.search(rb"^NSpid:((?:\t[0-9]+)+)$", file.read(), re.MULTILINE)
    if found:
        return [int(word) for word in found.group(1).split()]
    if os.readlink("/proc/%d/ns/pid" % pid) == os.readlink("/proc/self/ns/pid"):
        return [pid]
    raise OSError("the kernel does not say which pid it has in its own namespace")
