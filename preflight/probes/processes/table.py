"""The chosen processes as they are sent, with the supervisors that they name."""

from __future__ import annotations

import os

from ..fact import Json
from .head import import_psutil
from .row import process_row
from .walk import Walk


def process_table(walk: Walk, chosen: set[int]) -> Json:
    """Return facts.ProcessTable for the chosen pids."""
    psutil = import_psutil()
    agent = os.getppid()

    def rows_of(pids: set[int]) -> list[Json]:
        rows = [process_row(walk.stats[pid], walk.gpu_files.get(pid, []), psutil) for pid in sorted(pids)]
        return [row for row in rows if row is not None]

    rows = rows_of(chosen)
    rows += rows_of(_supervisors(walk, rows) - chosen)
    return {
        "source": "psutil" if psutil else "proc",
        "processes": sorted(rows, key=lambda row: int(row["pid"])),
        "total": len(walk.stats),
        "agent_pid": agent,
        "ancestors": walk.ancestors(agent),
    }


def _supervisors(walk: Walk, rows: list[Json]) -> set[int]:
    """Return the live processes, and those above them, that rows name as their supervisor."""
    found: set[int] = set()
    for row in rows:
        _, _, identity = row["environ"].get("GPULAUNCH_SUPERVISOR", "").partition(":")
        pid, _, ticks = identity.partition(":")
        stat = walk.stats.get(int(pid)) if pid.isdigit() else None
        if stat is not None and str(stat.start_ticks) == ticks:
            found |= {stat.pid, *walk.ancestors(stat.pid)}
    return found
