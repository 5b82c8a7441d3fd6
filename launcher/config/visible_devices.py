"""Which GPUs of this machine its user's shell, or a scheduler, leaves to a launch: CUDA_VISIBLE_DEVICES."""

import os
from collections.abc import Mapping
from dataclasses import replace

from launcher.config.inventory import HostEntry
from preflight import regex as re
from preflight.job import GpuRequest

CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+")


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
