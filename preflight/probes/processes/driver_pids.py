"""Processes that NVML names and the walk did not send: another user's, whose files may not be read."""

from functools import partial
from typing import Any

from ..assembly import list_named_pids
from ..fact import Emit, Json, read_fact
from .proc_pid import read_gpu_files, read_stat
from .process_fields import import_psutil
from .row import process_row


def probe_named(emit: Emit, answer: Json) -> None:
    """Emit the rows of the pids that only NVML names, and of those above them."""
    psutil = import_psutil() if answer["processes"]["source"] == "psutil" else None
    rows: dict[int, Any] = {}
    have = {row["pid"] for row in answer["processes"]["processes"]}
    for named in list_named_pids(answer):
        pid = named
        while pid and pid not in rows and pid not in have:
            try:
                stat = read_stat(pid)
            except OSError:
                break  # not in this pid namespace, or gone
            rows[pid] = process_row(stat, read_fact(partial(read_gpu_files, stat)), psutil)
            pid = stat.ppid
    emit("named", [row for row in rows.values() if row is not None])
