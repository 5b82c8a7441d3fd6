"""What `run` was asked: names and places. Light, so that nodes can start before the rest is loaded."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from launcher.config.inventory import HostEntry
from launcher.config.visible_devices import limit_to_visible
from preflight.job import Job

LOCAL_NAMES = Path()


def resolve_local_entries(
    entries: Sequence[HostEntry], job: Job, base: Path = LOCAL_NAMES
) -> tuple[HostEntry, ...]:
    """Return the entries, the local host's with the directory `base` and the GPUs that are visible."""
    here = str((Path.cwd() / base).resolve())
    return tuple(
        replace(entry, workdir=here) if entry.is_local and not (entry.workdir or job.workdir) else entry
        for entry in map(limit_to_visible, entries)
    )
