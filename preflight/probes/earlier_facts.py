"""What the client has from an earlier answer of this host, and whether it still holds.

A host that is up since, with the same driver, has the same GPUs under their UUIDs. Packages of its Python are
the same while nothing was added to, renamed in or removed from a folder that it imports from: pip does one of
these for every change, and each sets the folder's times. What may change at any moment (holders, processes,
ports, memory, disks, links, errors, the kernel's log) is never part of it.
"""

import os
import time
from typing import NamedTuple

from .fact import Json
from .files import read_text_or

BOOT_ID = "/proc/sys/kernel/random/boot_id"
_MODULE_VERSION = "/sys/module/nvidia/version"
_COARSEST_CLOCK_S = 3.0  # file systems that keep whole seconds, and their servers' clocks


class Known(NamedTuple):
    """What need not be sent again."""

    driver: str  # as NVML names it
    packages: str  # the stamp of the folders that hold them
    gpus: frozenset[str]  # UUIDs


def read_known(given: Json) -> Known | None:
    """Return what the client knows, None after a restart of host or driver. Raises TypeError for others."""
    if not given.get("boot_id") or given["boot_id"] != read_text_or(BOOT_ID):
        return None
    if given.get("nvidia_module", "") != read_module_version():
        return None
    gpus = frozenset(str(uuid) for uuid in given.get("gpus") or ())
    return Known(str(given.get("driver") or ""), str(given.get("packages") or ""), gpus)


def read_module_version() -> str:
    """Return the version of the kernel module that is loaded; "" without one, as on WSL2."""
    return read_text_or(_MODULE_VERSION)


def stamp_packages(executable: str, folders: list[str]) -> str:
    """Return what changes with every change of the packages in `folders`; "" where that is not certain.

    It is not certain of a folder that changed within the last seconds: its clock may not have moved between
    the change that was seen and one that was not.
    """
    try:
        from _blake2 import blake2b  # hashlib's own; hashlib loads OpenSSL, which takes longer than the stamp
    except ImportError:
        from hashlib import blake2b

    newest = (time.time() - _COARSEST_CLOCK_S) * 1e9
    seen = [executable]
    for path in [path for folder in folders for path in (folder, folder + "/torch/version.py")]:
        try:
            stat = os.stat(path)
        except OSError as error:
            seen.append("%s %s" % (path, error.errno))
            continue
        if max(stat.st_mtime_ns, stat.st_ctime_ns) > newest:
            return ""
        seen.append("%s %s" % (path, (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)))
    return blake2b("\n".join(seen).encode("utf-8", "replace"), digest_size=16).hexdigest()
