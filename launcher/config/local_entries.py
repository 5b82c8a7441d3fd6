"""The local host among the hosts of a command: its directory, its GPUs, its system. Imports little."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from launcher.config.inventory import HostEntry
from launcher.config.visible_devices import limit_to_visible
from preflight.errors import BadInput
from preflight.job import Job

LOCAL_NAMES = Path()


def resolve_local_entries(
    entries: Sequence[HostEntry], job: Job, base: Path = LOCAL_NAMES, *, platform: str = sys.platform
) -> tuple[HostEntry, ...]:
    """Return the entries, the local host's with the directory `base` and the GPUs that are visible.

    Raises BadInput for the local host where that runs another system than Linux.
    """
    require_linux(entries, platform=platform)
    here = str((Path.cwd() / base).resolve())
    return tuple(
        replace(entry, workdir=here) if entry.is_local and not (entry.workdir or job.workdir) else entry
        for entry in map(limit_to_visible, entries)
    )


def require_linux(
    entries: Sequence[HostEntry],
    fix: str = "name hosts: --hosts HOST, or hosts: in the run config",
    *,
    platform: str = sys.platform,
) -> None:
    """Raise BadInput where the local host is among the entries and runs another system than Linux."""
    if platform != "linux" and any(entry.is_local for entry in entries):
        name = {"darwin": "macOS"}.get(platform, platform)
        raise BadInput(f"this machine runs {name}, and ranks run on Linux hosts only", fix)
