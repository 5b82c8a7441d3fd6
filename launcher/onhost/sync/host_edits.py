"""Files that were written or edited on the host: kept when the tree replaces or no longer has them."""

import os
from contextlib import suppress

from .errors import SyncRefused
from .install import copy_entry
from .target_state import TargetState


def back_up_file(here: TargetState, path: str, kept_in: str) -> bool:
    """Copy a file that is about to be replaced, unless a sync wrote it; return whether one existed."""
    current = here.identity(path)
    if current in ("", "d") or here.was_synced(path):
        return False
    root = here.directory.root
    flat = os.path.join(kept_in, path)
    os.makedirs(os.path.dirname(flat), exist_ok=True)
    if current == "?":
        raise SyncRefused("%s in %s is not a regular file" % (path, root), "move it away on the host")
    copy_entry(os.path.join(root, path), flat)
    return True


def list_stale(here: TargetState, present: set[str]) -> list[str]:
    """Return the files of former syncs that the tree no longer has, and that are as a sync wrote them."""
    rows = sorted(here.record.rows.items())
    return [path for path, row in rows if path not in present and row[5] and here.identity(path) == row[0]]


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
