"""Processes that carry the suite's mark in their environment, whoever their parent is by now."""

import os
import signal
import time
from pathlib import Path

from tests.gpu.board import MARK


def marked(token: str) -> dict[int, str]:
    """Return the live processes of this run but for this one and its parents, with their command lines."""
    wanted = f"{MARK}={token}".encode()
    ours = _with_parents(os.getpid())
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in ours:
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it has ended, or is another user's
            continue
        if words:  # a zombie has none
            found[int(entry.name)] = words.strip()[:200]
    return found


def wait_gone(token: str, within_s: float) -> dict[int, str]:
    """Return what is still alive after this long; returns at once when nothing is."""
    deadline = time.monotonic() + within_s
    while left := marked(token):
        if time.monotonic() > deadline:
            break
        time.sleep(0.1)
    return left


def end_all(token: str) -> None:
    """Kill every process of this run, those included that start while it does."""
    for _ in range(20):
        left = marked(token)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.05)


def _with_parents(pid: int) -> set[int]:
    found = set()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            break
        pid = int(stat.rpartition(")")[2].split()[1])
    return found
