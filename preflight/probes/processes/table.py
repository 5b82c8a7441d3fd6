"""The chosen processes as they are sent, with the supervisors that they name."""

import os
from typing import Any

from ..fact import Json, truncate
from ..namespaces import is_pid_taken, read_namespace_pids, read_own_namespace
from ..supervisor_mark import RunMark, parse_mark
from ..users import read_user_name
from .process_fields import import_psutil
from .row import process_row
from .walk import ProcessWalk


def process_table(walk: ProcessWalk, chosen: set[int]) -> Json:
    """Return facts.ProcessTable for the chosen pids."""
    psutil = import_psutil() if chosen else None  # a quiet host does not wait for the import
    agent = os.getppid()
    rows = _rows(walk, chosen, psutil)
    rows += _rows(walk, _supervisors(walk, rows) - chosen, psutil)
    return {
        "source": "psutil" if psutil else "proc",
        "processes": sorted(rows, key=lambda row: int(row["pid"])),
        "total": len(walk.stats),
        "agent_pid": agent,
        "ancestors": walk.ancestors(agent),
        "unread": [_unread(pid, error) for pid, error in sorted(walk.unread.items())],
    }


def _rows(walk: ProcessWalk, pids: set[int], psutil: Any) -> list[Json]:
    """Return a row for each; what one process has made of itself must not hide the others."""
    rows = []
    for pid in sorted(pids):
        try:
            row = process_row(walk.stats[pid], walk.gpu_files.get(pid, []), psutil)
        except Exception as error:
            walk.unread[pid] = error
            continue
        if row is not None:
            rows.append(row)
    return rows


def _unread(pid: int, error: BaseException) -> Json:
    try:
        user = read_user_name(os.stat("/proc/%d" % pid).st_uid)
    except OSError:
        user = ""
    return {"pid": pid, "user": user, "reason": truncate("%s: %s" % (type(error).__name__, error))}


def _supervisors(walk: ProcessWalk, rows: list[Json]) -> set[int]:
    """Return the live processes, and those above them, that rows name as their supervisor."""
    found: set[int] = set()
    here = read_own_namespace("pid"), read_own_namespace("time")
    marks = {parse_mark(row["environ"].get("GPULAUNCH_SUPERVISOR", "")) for row in rows}
    for mark in filter(None, marks):
        ours = (mark.pid_namespace, mark.time_namespace) == here
        for pid in _named_here(walk, mark) if ours else _named_elsewhere(walk, mark):
            found |= {pid, *walk.ancestors(pid)}
    return found


def _named_here(walk: ProcessWalk, mark: RunMark) -> list[int]:
    """Return the process of our own namespace that a mark names, if it lives."""
    stat = walk.stats.get(mark.pid)
    if stat is not None:
        return [stat.pid] if stat.start_ticks == mark.start_ticks else []
    if is_pid_taken(mark.pid):  # it is not gone for being hidden
        walk.unread.setdefault(mark.pid, OSError("it exists, but /proc does not show it"))
    return []


def _named_elsewhere(walk: ProcessWalk, mark: RunMark) -> list[int]:
    """Return the processes that may be the one that a mark of another PID namespace names."""
    found = []
    for stat in walk.stats.values():
        if stat.start_ticks == mark.start_ticks:
            try:
                pids = read_namespace_pids(stat.pid)
            except OSError:
                continue
            if pids[-1] == mark.pid and len(pids) > 1:
                found.append(stat.pid)
    return found
