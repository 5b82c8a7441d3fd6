"""What `run` was asked: names and places. Light, so that nodes can begin before the rest is loaded."""

import os
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from launcher.inventory import HostEntry
from launcher.visible import within_visible
from preflight.job import Job

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def new_run_id(name: str) -> str:
    """Return a name for a run: what, when, and enough chance for two in one second."""
    safe = _UNSAFE.sub("-", name).strip("-.")[:40] or "run"
    return f"{safe}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"


def entries_here(entries: Sequence[HostEntry], job: Job) -> tuple[HostEntry, ...]:
    """Return the entries, the local host's with the current directory and the GPUs that are visible here."""
    here = str(Path.cwd())
    return tuple(
        replace(entry, workdir=here) if entry.is_local and not (entry.workdir or job.workdir) else entry
        for entry in map(within_visible, entries)
    )
