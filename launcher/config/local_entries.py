"""The local host among the hosts of a command: its directory, its GPUs, its system. Imports little."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from launcher.config.inventory import HostEntry
from preflight import regex as re
from preflight.errors import BadInput
from preflight.job import GpuRequest, Job

LOCAL_NAMES = Path()
CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+")


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


def limit_to_visible(entry: HostEntry, environ: Mapping[str, str] = os.environ) -> HostEntry:
    """Return the entry of this machine with no more GPUs than the variable leaves; others as they are.

    Elsewhere it is a matter of that host's shell, not of the local user. `gpus:` of hosts.yaml wins.
    """
    if not entry.is_local or entry.gpus != "all" or CUDA_VISIBLE_DEVICES not in environ:
        return entry
    return replace(
        entry,
        gpus=parse_visible_devices(environ[CUDA_VISIBLE_DEVICES]),
        gpus_source=f"{CUDA_VISIBLE_DEVICES}={environ[CUDA_VISIBLE_DEVICES]}",
    )


def parse_visible_devices(text: str) -> GpuRequest:
    """Return the GPUs that a value names, as CUDA reads it: up to the first word that names none.

    Numbers are taken as nvidia-smi counts, which is what people and Slurm mean by them.
    """
    found: list[int | str] = []
    for word in map(str.strip, text.split(",")):
        if word.isdecimal() and word.isascii():
            found.append(int(word))
        elif _UUID.fullmatch(word):
            found.append(word)
        else:
            break
    return tuple(dict.fromkeys(found)) or "none"
