"""Runs that work in a directory: what they open later, and what their restarts start, then lies in it."""

import os

RUN_ID = b"GPULAUNCH_RUN_ID="


def list_live_runs(root: str) -> list[str]:
    """Return the ids of runs with a process in the directory or below it, as far as this user may look."""
    found: set[str] = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            cwd = os.readlink("/proc/%s/cwd" % pid)
            if cwd != root and not cwd.startswith(root.rstrip("/") + "/"):
                continue
            with open("/proc/%s/environ" % pid, "rb") as stream:
                items = stream.read().split(b"\0")
        except OSError:
            continue  # another user's, or it has ended
        found.update(
            item[len(RUN_ID) :].decode("ascii", "replace") for item in items if item.startswith(RUN_ID)
        )
    return sorted(found - {""})
