"""The target directory, read and written by path components only, without following symlinks."""

import errno
import hashlib
import os
from contextlib import suppress
from typing import Any, BinaryIO, Iterator

from ..answer import report_busy
from .errors import SyncRefused

CHUNK = 1 << 20
STATE = ".gpulaunch-sync"
FORBIDDEN = (".git", STATE)
_NO_COMPONENTS = frozenset(("", ".", "..", *FORBIDDEN))


class SafeDirectory:
    """The target, and the sync's own directory in it."""

    def __init__(self, target: str) -> None:
        wanted = os.path.abspath(os.path.expanduser(target))
        self.root = os.path.realpath(wanted)
        if self.root in ("/", os.path.realpath(os.path.expanduser("~"))):
            raise SyncRefused(
                "%s is not a directory for a working tree alone" % self.root,
                "set sync.to (or workdir) to a directory below it",
            )
        os.makedirs(self.root, exist_ok=True)
        self.fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with suppress(FileExistsError):
            os.mkdir(STATE, 0o700, dir_fd=self.fd)
        self.state = os.open(
            STATE, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd
        )
        self._last: tuple[tuple[str, ...], int] = ((), -1)

    def note(self, name: str, data: bytes) -> None:
        """Replace a file of the sync's own directory by one with this content."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with open(os.open(name + ".new", flags, 0o600, dir_fd=self.state), "wb") as file:
            file.write(data)
        os.rename(name + ".new", name, src_dir_fd=self.state, dst_dir_fd=self.state)

    def forget(self) -> None:
        """Close the directory that was used last."""
        if self._last[1] >= 0:
            os.close(self._last[1])
        self._last = ((), -1)

    def parent(self, parts: list[str]) -> int | None:
        """Return the directory that holds a path, valid until the next call; None: it does not exist.

        Raises NotADirectoryError with the path of what is in the way.
        """
        wanted = tuple(parts[:-1])
        if not wanted:
            return self.fd
        if self._last[0] != wanted:
            self.forget()
            fd = self._walk(wanted)
            if fd is None:
                return None
            self._last = (wanted, fd)
        return self._last[1]

    def _walk(self, parts: tuple[str, ...]) -> int | None:
        fd = os.dup(self.fd)
        for place, name in enumerate(parts):
            try:
                below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    way = "/".join(parts[: place + 1])
                    raise NotADirectoryError(errno.ENOTDIR, "in the way", way) from None
                error.filename = "/".join(parts[: place + 1])
                raise
            finally:
                os.close(fd)
            fd = below
        return fd

    def stat(self, parts: list[str]) -> os.stat_result | None:
        """Return the status of a path, None if it does not exist."""
        report_busy()
        fd = self.parent(parts)
        if fd is None:
            return None
        try:
            return os.stat(parts[-1], dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def hash(self, parts: list[str]) -> str:
        """Return the SHA-256 of a regular file."""
        fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.parent(parts))
        with open(fd, "rb") as file:
            return hash_file(file)

    def link(self, parts: list[str]) -> str:
        """Return the target of a symbolic link."""
        return os.readlink(parts[-1], dir_fd=self.parent(parts))

    def make_parent(self, parts: list[str], made: list[str]) -> int:
        """Return the parent directory of a path, created where needed; `made` gets the new directories."""
        fd = self.parent(parts)
        if fd is not None:
            return fd
        for count in range(1, len(parts)):
            above = self.parent(parts[:count])
            with suppress(FileExistsError):
                os.mkdir(parts[count - 1], 0o777, dir_fd=above)
                made.append("/".join(parts[:count]))
        fd = self.parent(parts)
        if fd is None:
            raise SyncRefused("%s vanished while it was being written" % "/".join(parts[:-1]))
        return fd

    def unlink(self, parts: list[str]) -> None:
        """Remove a file or a symlink."""
        os.unlink(parts[-1], dir_fd=self.parent(parts))

    def make_file(self, name: str, data: bytes) -> None:
        """Make a file in the sync's own directory. Raises FileExistsError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(name, flags, 0o600, dir_fd=self.state), "wb") as file:
            file.write(data)

    def refuse_full(self, need: int) -> None:
        """Raise SyncRefused where this many bytes do not fit."""
        disk = os.fstatvfs(self.fd)
        free = disk.f_bavail * disk.f_frsize
        if need > free:
            raise SyncRefused(
                "%d MiB are to be written to %s, and %d MiB are free"
                % (-(-need >> 20) or 1, self.root, free >> 20),
                "make room on the host, exclude files (sync.exclude), or set sync.to to another disk",
            )


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield what an open file holds; the host says meanwhile that it works."""
    for data in iter(lambda: file.read(CHUNK), b""):
        yield data
        report_busy()


def hash_file(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file."""
    digest = hashlib.sha256()
    for data in read_chunks(file):
        digest.update(data)
    return digest.hexdigest()


def split_path(path: str) -> list[str]:
    """Return the components of a writable path. Raises SyncRefused for every other one."""
    parts = path.split("/")
    if "\0" in path or not _NO_COMPONENTS.isdisjoint(parts):
        raise SyncRefused("%r is not a path inside the directory; nothing was written" % path)
    return parts


def is_inside(path: Any) -> bool:
    """Return whether a path of the record, a file that any program can edit, may be written."""
    try:
        return isinstance(path, str) and bool(split_path(path))
    except SyncRefused:
        return False
