"""One sync at a time in one directory, and what killed ones have left."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from contextlib import suppress

from .directory import Directory
from .paths import STATE
from .refusal import Refused

LOCK_WAIT_S = 60.0
OLD_NONCE_S = 86400.0


def take_lock(directory: Directory) -> int:
    """Return the descriptor that holds the lock. Raises Refused when another sync keeps it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open("lock", flags, 0o600, dir_fd=directory.state)
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return lock  # a file system without locks
        else:
            return lock
        if time.monotonic() > deadline:
            raise Refused(
                "another sync has been writing %s for %g s" % (directory.root, LOCK_WAIT_S),
                "wait for it to end, or give each run a directory of its own with sync.to",
            )
        time.sleep(0.1)


def sweep(directory: Directory) -> None:
    """Remove what killed syncs have left: we hold the lock, so no other one is at work."""
    for name in os.listdir(directory.state):
        path = os.path.join(directory.root, STATE, name)
        if name.startswith("incoming-"):
            shutil.rmtree(path, ignore_errors=True)
        elif name.startswith("nonce-"):
            with suppress(OSError):
                if time.time() - os.lstat(path).st_mtime > OLD_NONCE_S:
                    os.unlink(path)
