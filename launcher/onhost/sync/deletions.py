"""Files of former syncs that the tree no longer has."""

import os
from contextlib import suppress

from .target_state import TargetState


def drop_stale(here: TargetState, present: set[str], *, delete: bool) -> dict[str, list[str]]:
    """Delete stale files if requested, except edited ones; return the result for each path."""
    found: dict[str, list[str]] = {"deleted": [], "stale": [], "edited": []}
    for path, row in sorted(here.record.rows.items()):
        if path in present:
            continue
        current = here.identity(path)
        if not row[5] or current in ("", "d"):
            here.record.remove(path)
        elif current != row[0]:
            found["edited"].append(path)
        elif delete:
            here.directory.unlink(path.split("/"))
            here.record.remove(path)
            found["deleted"].append(path)
        else:
            found["stale"].append(path)
    if found["deleted"]:
        drop_empty_directories(here)
    return found


def drop_empty_directories(here: TargetState) -> None:
    """Remove empty directories that syncs have made."""
    for path in sorted(set(here.record.dirs), key=len, reverse=True):
        parts = path.split("/")
        with suppress(OSError):
            fd = here.directory.parent(parts)
            if fd is not None:
                os.rmdir(parts[-1], dir_fd=fd)
                here.directory.forget()
            here.record.dirs = [other for other in here.record.dirs if other != path]
