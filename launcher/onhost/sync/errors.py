"""Errors of a sync on the host, as texts for the user."""

import errno
import os

_NO_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)


class SyncRefused(Exception):
    """Error of a sync on the host, with its fix."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


def describe_os_error(error: OSError, target: str) -> SyncRefused:
    """Return the meaning of a system error for a sync."""
    where = error.filename if isinstance(error.filename, str) else ""
    place = os.path.join(target, where) if where else target
    if error.errno == errno.EDQUOT:
        return SyncRefused(
            "your quota (of space or of files) for %s is used up" % target,
            "make room on the host (quota -s shows the limits), or set sync.to to another disk",
        )
    if error.errno == errno.ENOSPC:
        return SyncRefused(
            "no space left (or no inodes) for %s" % target,
            "make room on the host (df -h %s; df -i), or set sync.to to another disk" % target,
        )
    if error.errno == errno.EROFS:
        return SyncRefused(
            "%s is on a read-only file system" % place,
            "set sync.to to a directory you may write (findmnt -T %s shows the mount)" % target,
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        me = os.environ.get("USER") or "uid %d" % os.getuid()
        return SyncRefused("%s may not write %s" % (me, place), "set sync.to to a directory you may write")
    fix = "set sync.to to a directory that can be made" if error.errno in _NO_PLACE else ""
    return SyncRefused("%s: %s" % (place, error.strerror or error), fix)
