"""What `run` was asked: names and places. Light, so that nodes can start before the rest is loaded."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from launcher.config.inventory import HostEntry
from launcher.config.visible_devices import within_visible
from preflight.job import Job

HERE = Path()


def entries_here(entries: Sequence[HostEntry], job: Job, base: Path = HERE) -> tuple[HostEntry, ...]:
    """Return the entries, the local host's with the local directory (`base`) and the GPUs that are
    visible.
    """
    here = str((Path.cwd() / base).resolve())
    return tuple(
        replace(entry, workdir=here) if entry.is_local and not (entry.workdir or job.workdir) else entry
        for entry in map(within_visible, entries)
    )
