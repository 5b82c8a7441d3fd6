"""Paths below a directory. Names from hosts, records and local links never choose another place.

Every file that is written under a name from elsewhere goes through `join_below`: the name is plain, nothing
on the way is a link, and the place is proven to lie in the directory that was meant. The directory itself is
the user's own word, so it may be or contain a link.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from launcher.errors import PathRefused
from launcher.text import one_line

PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600
_LONGEST_NAME = 255


def join_below(directory: Path, name: str) -> Path:
    """Return the path of a name below a directory. Raises PathRefused when it could lead elsewhere.

    `name` is relative, its parts joined by "/"; what does not exist yet is fine, and is not made.
    """
    parts = name.split("/")
    for part in parts:
        if part in ("", ".", "..") or "\0" in part or not _is_name(part):
            raise PathRefused(f"{one_line(name)!r} is not the name of a file below {directory}")
    place = directory
    for part in parts:
        place = place / part
        if place.is_symlink():
            raise PathRefused(
                f"{one_line(str(place))} is a symbolic link; nothing is written through it",
                "remove the link, or name another directory",
            )
    top = os.path.realpath(directory)
    if os.path.realpath(place) != os.path.join(top, *parts):  # noqa: PTH118 - of what realpath has returned
        raise PathRefused(f"{one_line(str(place))} does not lie in {directory}")
    return place


def find_nearest_existing(path: Path) -> Path:
    """Return the path, or the nearest of its parents that exists, be it a directory or not."""
    return next((place for place in (path, *path.parents) if os.access(place, os.F_OK)), Path("/"))


def access_errno(path: Path, mode: int) -> int:
    """Return 0 where access(2) grants this mode, else its errno, which os.access does not give."""
    if os.access(path, mode):
        return 0
    import ctypes  # noqa: PLC0415 - only to name a refusal

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.access(os.fsencode(path), mode) == 0:
        return 0
    return ctypes.get_errno() or errno.EACCES


def make_directory(directory: Path, name: str = "") -> Path:
    """Make a directory and its parents, new ones for its user only. Raises OSError and PathRefused."""
    path = join_below(directory, name) if name else directory
    missing = []
    for place in (path, *path.parents):
        if place.is_dir():
            break
        if place.exists():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
        missing.append(place)
    for place in reversed(missing):
        try:
            place.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        except FileNotFoundError:  # as /proc answers
            Path.cwd()  # raises where it is the current directory that is gone
            raise PathRefused(
                f"no directory can be made at {one_line(str(place))}",
                "name another directory, such as --logs DIR",
            ) from None
    return path


def open_below(directory: Path, name: str, flags: int) -> int:
    """Open a file and make its parents, for its user only. Raises OSError, and PathRefused."""
    path = join_below(directory, name)
    make_directory(directory, name.rpartition("/")[0])
    return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_FILE)


def write_below(directory: Path, name: str, text: str) -> Path:
    """Write a file atomically below a directory, for its user; return it. Raises OSError, PathRefused."""
    path = join_below(directory, name)
    make_directory(directory, name.rpartition("/")[0])
    fresh = path.with_name(f".{os.urandom(8).hex()}.new")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        with os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
    return path


def remove_oldest(directory: Path, kept: int, is_needed: Callable[[Path], bool] = lambda _: False) -> None:
    """Leave needed JSON files of a directory, and so many that were written last. Raises OSError."""
    with suppress(FileNotFoundError):  # another process removes them just now
        files = sorted(directory.glob("*.json"), key=lambda path: path.lstat().st_mtime)
        for path in files[:-kept]:
            if not is_needed(path):
                path.unlink(missing_ok=True)


def read_own_file(path: Path, largest: int) -> bytes:
    """Return a regular file of this user's, b"" for any other and a larger one (in bytes). Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_size > largest:
            return b""
        return file.read(largest + 1)


def _is_name(part: str) -> bool:
    """Return whether the kernel takes it as the name of a file."""
    try:
        return len(os.fsencode(part)) <= _LONGEST_NAME
    except UnicodeError:  # half of a pair of surrogates
        return False
