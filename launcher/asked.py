"""What `run` was asked: names and places. Light, so that nodes can begin before the rest is loaded."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from launcher.inventory import HostEntry
from launcher.visible import within_visible
from preflight.job import Job


def entries_here(entries: Sequence[HostEntry], job: Job) -> tuple[HostEntry, ...]:
    """Return the entries, the local host's with the current directory and the GPUs that are visible here."""
    here = str(Path.cwd())
    return tuple(
        replace(entry, workdir=here) if entry.is_local and not (entry.workdir or job.workdir) else entry
        for entry in map(within_visible, entries)
    )
