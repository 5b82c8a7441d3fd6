"""SHA-256 of local files, kept from one sync to the next: what has not changed is not read again.

A file of one tree in the user's cache directory. A hash holds as long as device, inode, size and both times
of the file are as they were when it was read; no program can set the time of the last change (ctime). A file
that changed within _SETTLED_NS before it was read may change again within one tick of its clock, so its hash
is not kept (git: Documentation/technical/racy-git). What is in the cache that is not of this form is nothing.
"""

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from launcher.errors import GpulaunchError
from launcher.local.home import user_cache_dir
from launcher.local.safe_paths import read_own_file, remove_oldest, write_below

SCHEMA = "gpulaunch.tree-hashes/2"
_SETTLED_NS = 2 * 10**9
_LARGEST = 64 << 20  # bytes of a cache: a tree of 400,000 files
_WORTH = 1 << 20  # bytes of a tree; to hash fewer takes less time than to read a cache
_MOST_TREES = 50

_GARBAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, GpulaunchError)

_Stamp: TypeAlias = tuple[int, int, int, int, int]  # device, inode, size, mtime and ctime in ns


class HashCache:
    """The hashes of one tree. `directory` has a file for each tree."""

    def __init__(self, root: Path, directory: Path | None = None) -> None:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._file = f"{name}.json"
        self._directory = directory
        self._known: dict[str, tuple[_Stamp, str]] = {}
        self._kept: dict[str, tuple[_Stamp, str]] = {}
        self._size = 0
        with suppress(*_GARBAGE):
            self._directory = self._directory or user_cache_dir() / "trees"
            self._known = _read(self._directory / self._file)

    def find(self, path: str, status: os.stat_result) -> str | None:
        """Return the SHA-256 of a file that has not changed since it was hashed; None: it has to be read."""
        self._size += status.st_size
        row = self._known.get(path)
        if row is None or row[0] != _stamp(status):
            return None
        self._kept[path] = row
        return row[1]

    def add(self, path: str, status: os.stat_result, digest: str) -> None:
        """Keep the SHA-256 of a file whose `status` was taken after it had been read."""
        if max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - _SETTLED_NS:
            self._kept[path] = _stamp(status), digest

    def save(self) -> None:
        """Write what this sync has found, for the user only. One that cannot be written stays as it was."""
        if self._directory is None or self._size < _WORTH or self._kept == self._known:
            return
        rows = {path: [*stamp, digest] for path, (stamp, digest) in self._kept.items()}
        text = json.dumps({"schema": SCHEMA, "files": rows})
        if len(text) > _LARGEST:
            return
        with suppress(OSError, GpulaunchError):
            write_below(self._directory, self._file, f"{_checksum(text.encode())}\n{text}")
            remove_oldest(self._directory, _MOST_TREES)

    def forget(self) -> None:
        """Remove the cache: the next sync reads every file."""
        if self._directory is not None:
            with suppress(OSError):
                (self._directory / self._file).unlink(missing_ok=True)


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read(path: Path) -> dict[str, tuple[_Stamp, str]]:
    """Return what a cache holds. Raises one of _GARBAGE."""
    checksum, _, text = read_own_file(path, _LARGEST).partition(b"\n")
    document = json.loads(text) if checksum.decode() == _checksum(text) else {}
    if document["schema"] != SCHEMA:
        return {}
    return {
        name: ((device, inode, size, mtime_ns, ctime_ns), str(digest))
        for name, (device, inode, size, mtime_ns, ctime_ns, digest) in document["files"].items()
    }


def _checksum(text: bytes) -> str:
    """Return what shows a file that is cut or spoiled: a wrong hash would fail every sync of its file."""
    return hashlib.sha256(text).hexdigest()
