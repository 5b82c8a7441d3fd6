"""Validation of the paths that a sync may write."""

from typing import Any

from .errors import SyncRefused

STATE = ".gpulaunch-sync"
FORBIDDEN = (".git", STATE)
_NO_COMPONENTS = frozenset(("", ".", "..", *FORBIDDEN))


def parts_of(path: str) -> list[str]:
    """Return the components of a writable path. Raises SyncRefused for every other one."""
    parts = path.split("/")
    if "\0" in path or not _NO_COMPONENTS.isdisjoint(parts):
        raise SyncRefused("%r is not a path inside the directory; nothing was written" % path)
    return parts


def is_inside(path: Any) -> bool:
    """Return whether a path of the record may be written.

    The record is a file, which any program can edit.
    """
    try:
        return isinstance(path, str) and bool(parts_of(path))
    except SyncRefused:
        return False
