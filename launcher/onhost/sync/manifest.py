"""Record of the files that former syncs wrote."""

import json
import os
from contextlib import suppress
from typing import Any

from .safe_dir import SafeDirectory, is_inside


class Manifest:
    """Files of former syncs, and hashes of files that have not changed since: path -> row.

    A row: identity ("f" + SHA-256, or "l" + link target), size, mtime, ctime and inode when it was hashed
    (zeros: too fresh to be trusted), and whether a sync wrote it.
    """

    def __init__(self, directory: SafeDirectory) -> None:
        self._directory = directory
        self.rows: dict[str, list[Any]] = {}
        self.dirs: list[str] = []
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            fd = os.open("record.json", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory.state)
            with open(fd, "rb") as file:
                data = json.loads(file.read())
            self.rows = {
                path: list(row) for path, row in data["files"].items() if len(row) == 6 and is_inside(path)
            }
            self.dirs = [path for path in data["dirs"] if is_inside(path)]
        self._saved = dict(self.rows), list(self.dirs)

    def save(self) -> None:
        """Write it atomically, where it has changed."""
        if self._saved == (self.rows, self.dirs):
            return
        data = json.dumps({"files": self.rows, "dirs": sorted(set(self.dirs))}).encode()
        self._directory.note("record.json", data)
        self._saved = dict(self.rows), list(self.dirs)

    def add(self, path: str, identity: str, found: os.stat_result | None, *, ours: bool) -> None:
        """Record the content of a path; without `found` it is too fresh to be trusted."""
        times = [0, 0, 0, 0]
        if found is not None:
            times = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
        self.rows[path] = [identity, *times, ours]

    def is_unchanged(self, path: str, found: os.stat_result) -> bool:
        """Return whether a file still has its hashed content, by attributes that change with every write."""
        row = self.rows.get(path)
        times = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
        return row is not None and str(row[0])[:1] == "f" and row[1:5] == times

    def contains(self, path: str) -> bool:
        """Return whether a sync wrote a path, which may have changed since."""
        row = self.rows.get(path)
        return row is not None and bool(row[5])

    def remove(self, path: str) -> None:
        """Remove a path from the record."""
        self.rows.pop(path, None)
