"""Lock against two syncs in one directory, and removal of leftovers of killed ones."""

import errno
import fcntl
import os
import time
from contextlib import suppress

from ..answer import report_busy
from .errors import SyncRefused
from .safe_dir import STATE, SafeDirectory
from .staging import remove_tree

LOCK_WAIT_S = 60.0
OLD_S = 86400.0


def take_lock(directory: SafeDirectory) -> tuple[int, bool]:
    """Return the lock's descriptor and whether a file system locks. Raises SyncRefused if another has it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    lock = os.open("lock", flags, 0o600, dir_fd=directory.state)
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return lock, False
        else:
            return lock, True
        if time.monotonic() > deadline:
            raise SyncRefused(
                "another sync has been writing %s for %g s" % (directory.root, LOCK_WAIT_S),
                "wait for it to end, or give each run a directory of its own with sync.to",
            )
        report_busy()
        time.sleep(0.1)


def remove_stale(directory: SafeDirectory, *, is_locked: bool) -> None:
    """Remove leftovers of killed syncs.

    The lock excludes any other live sync of this boot. Other hosts may share the directory by NFS
    without sharing its locks, so files that may be theirs are removed only when they are a day old.
    """
    for name in os.listdir(directory.state):
        path = os.path.join(directory.root, STATE, name)
        kind, _, nonce = name.partition("-")
        if kind == "incoming" and (is_old(path) or (is_locked and is_of_this_boot(directory, nonce))):
            remove_tree(path)
        elif kind == "nonce" and is_old(path):
            with suppress(OSError):
                os.unlink(path)


def is_of_this_boot(directory: SafeDirectory, nonce: str) -> bool:
    """Return whether a sync began in this boot; one whose nonce is gone has ended."""
    try:
        with open(os.open("nonce-" + nonce, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory.state)) as file:
            return file.read(64) == read_boot_id()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False


def is_old(path: str) -> bool:
    """Return whether a file is too old to belong to a live sync."""
    with suppress(OSError):
        return time.time() - os.lstat(path).st_mtime > OLD_S
    return False


def read_boot_id() -> str:
    """Return this boot's id, "" if it has none."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return ""
