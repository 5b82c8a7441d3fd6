"""Staging area of entries that are complete, and not yet installed."""

import hashlib
import os
import stat
from contextlib import suppress
from typing import BinaryIO

from ..answer import report_busy
from .errors import SyncRefused
from .protocol import receive_chunks
from .safe_dir import STATE, SafeDirectory, hash_file, split_path
from .target_state import TreeEntry

TREE = "tree"


class Staging:
    """Directory of this sync only, with each entry under its index."""

    def __init__(self, directory: SafeDirectory, nonce: str) -> None:
        self.nonce = nonce
        name = "incoming-" + nonce
        self.path = os.path.join(directory.root, STATE, name)
        os.mkdir(name, 0o700, dir_fd=directory.state)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        self.fd = os.open(name, flags, dir_fd=directory.state)
        made = os.fstat(self.fd)
        self.now_ns = made.st_mtime_ns  # by the clock of the files' times
        self.device = made.st_dev
        self.written_ns: dict[int, int] = {}  # by index: when the content of a file was complete
        self.staged: set[int] = set()

    def put(self, index: int, entry: TreeEntry, stream: BinaryIO) -> None:
        """Receive an entry from stdin. Raises SyncRefused when its content is not the announced one."""
        if entry.kind == "l":
            os.symlink(entry.content, str(index), dir_fd=self.fd)
            self.staged.add(index)
            return
        digest, count = hashlib.sha256(), 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(str(index), flags, 0o600, dir_fd=self.fd)
        with open(fd, "wb") as file:
            for data in receive_chunks(stream):
                count += len(data)
                if count > entry.size:
                    break
                digest.update(data)
                file.write(data)
            os.fchmod(file.fileno(), entry.mode & 0o777)
            file.flush()
            self.written_ns[index] = os.fstat(fd).st_mtime_ns
        if count != entry.size or digest.hexdigest() != entry.content:
            raise SyncRefused(
                "%s changed while it was sent; nothing was written" % entry.path, "run it again"
            )
        self.staged.add(index)

    def adopt(self, index: int, entry: TreeEntry) -> bool:
        """Move in an entry that rsync has delivered; return whether it is complete."""
        if entry.kind != "f" or index in self.staged:
            return False
        came = os.path.join(TREE, *split_path(entry.path))
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(came, flags, dir_fd=self.fd)
        except OSError:
            return False
        with open(fd, "rb") as file:
            if not is_complete(file, entry):
                return False
            os.fchmod(fd, entry.mode & 0o777)
            self.written_ns[index] = os.fstat(fd).st_mtime_ns
        os.rename(came, str(index), src_dir_fd=self.fd, dst_dir_fd=self.fd)
        self.staged.add(index)
        return True

    def read_clock(self) -> int:
        """Return the time in ns by the clock of the files' times."""
        os.mkdir("now", dir_fd=self.fd)
        return os.stat("now", dir_fd=self.fd).st_mtime_ns


def remove_tree(path: str) -> None:
    """Remove a directory with all in it; what cannot be removed stays."""
    for _, folders, names, fd in os.fwalk(path, topdown=False):  # it follows no link
        for name in (*names, *folders):
            report_busy()
            with suppress(OSError):
                is_folder = stat.S_ISDIR(os.lstat(name, dir_fd=fd).st_mode)
                (os.rmdir if is_folder else os.unlink)(name, dir_fd=fd)
    with suppress(OSError):
        os.rmdir(path)


def is_complete(file: BinaryIO, entry: TreeEntry) -> bool:
    """Return whether an open file has the announced content."""
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) or found.st_size != entry.size:
        return False
    return hash_file(file) == entry.content
