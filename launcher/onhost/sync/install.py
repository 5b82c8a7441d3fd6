"""Installation of staged entries, each by one rename."""

import errno
import os
import stat
from contextlib import suppress

from .errors import SyncRefused
from .safe_dir import read_chunks
from .staging import Staging
from .target_state import TargetState


def install_entry(here: TargetState, incoming: Staging, index: int, path: str) -> None:
    """Install one entry. Raises OSError with its path, and SyncRefused where it has changed since."""
    parts = path.split("/")
    try:
        fd = here.directory.make_parent(parts, here.record.dirs)
    except NotADirectoryError as error:
        unlink_synced(here, str(error.filename))
        fd = here.directory.make_parent(parts, here.record.dirs)
    found = here.directory.stat(parts)
    if found is not None and stat.S_ISDIR(found.st_mode):
        os.rmdir(parts[-1], dir_fd=fd)
    try:
        os.rename(str(index), parts[-1], src_dir_fd=incoming.fd, dst_dir_fd=fd)
    except OSError as error:
        if error.errno != errno.EXDEV:
            error.filename = path
            raise
        install_on_other_disk(incoming, index, parts[-1], fd)


def install_on_other_disk(incoming: Staging, index: int, name: str, fd: int) -> None:
    """Copy to a name beside the path, then rename: a directory of the tree may be another mount."""
    beside = "%s.%s" % (name[:100], incoming.nonce)
    source = os.path.join(incoming.path, str(index))
    try:
        copy_entry(source, "/proc/self/fd/%d/%s" % (fd, beside))
        os.rename(beside, name, src_dir_fd=fd, dst_dir_fd=fd)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=fd)
        raise


def copy_entry(source: str, target: str) -> None:
    """Copy a file or a link with its mode and times."""
    import shutil  # 5 ms, and few syncs copy

    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
    else:
        with open(source, "rb") as file, open(target, "wb") as out:
            out.writelines(read_chunks(file))
    shutil.copystat(source, target, follow_symlinks=False)


def unlink_synced(here: TargetState, path: str) -> None:
    """Remove a file of a former sync where the tree now has a directory."""
    if not here.was_synced(path):
        raise SyncRefused("%s in %s changed meanwhile" % (path, here.directory.root), "run it again")
    here.directory.unlink(path.split("/"))
    here.record.remove(path)


def set_mode(here: TargetState, path: str, mode: int, found: int) -> None:
    """Give an existing file the mode that it has in the tree."""
    parts = path.split("/")
    fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW, dir_fd=here.directory.parent(parts))
    try:
        os.fchmod(fd, mode & 0o777)
    except PermissionError:
        if (found ^ mode) & 0o100:  # another user's file: only its executable bit matters
            raise
    finally:
        os.close(fd)
