"""Current content of the directory, and the part of it that former syncs wrote."""

import hashlib
import json
import os
import stat
from contextlib import suppress
from typing import Any, Iterable, NamedTuple

from .errors import SyncRefused
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


SETTLED_NS = 2 * 10**9  # a file changed just before it was hashed may change within that tick
TICK_NS = 50 * 10**6
"""Longer than a tick of a clock that counts fractions of a second; the longest of Linux is 10 ms."""


class TreeEntry(NamedTuple):
    """One file or symbolic link of the tree that is sent."""

    path: str  # relative, with "/"; bytes that are not UTF-8 as surrogates
    kind: str  # "f" or "l"
    mode: int  # permission bits; 0 for a link
    size: int
    content: str  # SHA-256, or where the link points


def hash_tree(entries: Iterable[TreeEntry]) -> str:
    """Return one SHA-256 over paths, modes and contents: equal trees have equal ones."""
    digest = hashlib.sha256()
    for entry in entries:
        line = "%s %o %s %s\0" % (entry.kind, entry.mode & 0o100, entry.content, entry.path)
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


class TargetState:
    """The directory and its record; `now_ns` is by the clock of the files' times."""

    def __init__(self, directory: SafeDirectory, now_ns: int) -> None:
        self.directory = directory
        self.record = Manifest(directory)
        self.modes: list[tuple[str, int, int]] = []  # present with a wrong mode: path, wanted, found
        self._now_ns = now_ns

    def identity(self, path: str) -> str:
        """Return the content of a path: "f" + SHA-256, "l" + target, "d", "?" for others, "" for nothing."""
        found = self._stat(path)
        return "" if found is None else self._identity(path, found)

    def _stat(self, path: str) -> os.stat_result | None:
        with suppress(NotADirectoryError):
            return self.directory.stat(path.split("/"))
        return None

    def _identity(self, path: str, found: os.stat_result) -> str:
        parts = path.split("/")
        if stat.S_ISLNK(found.st_mode):
            return "l" + self.directory.link(parts)
        if not stat.S_ISREG(found.st_mode):
            return "d" if stat.S_ISDIR(found.st_mode) else "?"
        if self.record.is_unchanged(path, found):
            return str(self.record.rows[path][0])
        current = "f" + self.directory.hash(parts)
        if found.st_ctime_ns < self._now_ns - SETTLED_NS:
            was_put = self.record.contains(path)
            if not was_put or self.record.rows[path][0] == current:  # an edited file stays known as put
                self.record.add(path, current, found, ours=was_put)
        return current

    def trust(self, entry: TreeEntry, device: int, written_ns: int, now_ns: int) -> None:
        """Keep the hash of a file that was installed just now, so that the next sync need not read it.

        It is as it was staged on `device`: it has the time `written_ns` of the staged
        content, and the clock, at `now_ns`, has gone on since. Times in whole seconds prove nothing.
        """
        found = self._stat(entry.path)
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_dev != device:
            return
        times = found.st_mtime_ns, found.st_ctime_ns
        is_settled = all(time_ns % 10**9 for time_ns in times) and max(times) < now_ns - TICK_NS
        if is_settled and (found.st_size, found.st_mtime_ns) == (entry.size, written_ns):
            self.record.add(entry.path, entry.kind + entry.content, found, ours=True)

    def was_synced(self, path: str) -> bool:
        """Return whether the current file at a path was written by a sync."""
        return self.record.contains(path) and self.identity(path) == self.record.rows[path][0]

    def has(self, entry: TreeEntry) -> bool:
        """Return whether an entry is present, in any mode. Raises SyncRefused where it cannot replace."""
        try:
            found = self.directory.stat(entry.path.split("/"))
        except NotADirectoryError as error:
            self._refuse_in_the_way(str(error.filename), entry.path)
            return False
        if found is None:
            return False
        if stat.S_ISDIR(found.st_mode):
            self._refuse_directory(entry.path)
            return False
        if self._identity(entry.path, found) != entry.kind + entry.content:
            return False
        if entry.kind == "f" and stat.S_IMODE(found.st_mode) != entry.mode:
            self.modes.append((entry.path, entry.mode, stat.S_IMODE(found.st_mode)))
        return True

    def _refuse_in_the_way(self, way: str, path: str) -> None:
        if not self.was_synced(way):
            what = "a symbolic link" if self.identity(way)[:1] == "l" else "a file"
            raise SyncRefused(
                "%s in %s is %s, so %s cannot be written below it" % (way, self.directory.root, what, path),
                "move it away on the host, or exclude it (sync.exclude)",
            ) from None

    def _refuse_directory(self, path: str) -> None:
        if os.listdir(os.path.join(self.directory.root, path)):
            raise SyncRefused(
                "%s in %s is a directory, and it is a file in the tree that is sent"
                % (path, self.directory.root),
                "move it away on the host, or exclude it (sync.exclude)",
            )
