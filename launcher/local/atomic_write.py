"""Writing a local file: the whole of it or nothing."""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from preflight.errors import BadInput

_DEVICES = (Path("/dev"), Path("/proc"))


def write_atomic(path: Path, text: str) -> None:
    """Write text to a file, which appears only once it is complete.

    A link stays one: what it leads to is written. A file keeps its permissions, and its owner where that is
    possible. Raises OSError naming the file, and BadInput where there is no directory for it, or the text has
    no bytes in UTF-8.
    """
    _require_directory(path)
    if _is_stream(path):
        path.write_text(text, encoding="utf-8")  # nothing to put in its place
        return
    target, fresh = _fresh_beside(path)
    try:
        with fresh.open("x", encoding="utf-8", newline="") as file:  # never through another user's link
            file.write(text)
            with suppress(FileNotFoundError):
                before = target.stat()
                with suppress(PermissionError):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
        fresh.replace(target)
    except OSError as error:
        _discard(fresh)
        raise OSError(error.errno, error.strerror, str(path)) from None
    except UnicodeEncodeError:  # of a name with bytes that no text has
        _discard(fresh)
        raise BadInput(
            f"{path} cannot hold a name that is not UTF-8", "rename the file, then try again"
        ) from None


def check_writable(path: Path) -> None:
    """Find out now whether `write_atomic` will be able to write a mebibyte; leaves nothing behind.

    Raises as `write_atomic` does, on a full disk too: what is written later may have taken long to make.
    """
    _require_directory(path)
    if _is_stream(path):
        return
    _, fresh = _fresh_beside(path)
    try:
        with fresh.open("xb") as file:
            if hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(file.fileno(), 0, 1 << 20)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # of file systems that reserve nothing
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        _discard(fresh)


def _discard(fresh: Path) -> None:
    """Remove an incomplete file; a read-only file system refuses that even of one that does not exist."""
    with suppress(OSError):
        fresh.unlink()


def _require_directory(path: Path) -> None:
    if not path.absolute().parent.is_dir():
        raise BadInput(f"{path}: the directory {path.parent} does not exist", "make it, or name another file")


def _is_stream(path: Path) -> bool:
    """Whether it is /dev/stdout, a pipe or the like, which takes bytes and keeps none."""
    return any(above in path.absolute().parents for above in _DEVICES) or (
        path.exists() and not path.is_file()
    )


def _fresh_beside(path: Path) -> tuple[Path, Path]:
    """Return what a link leads to, and a random name in its directory."""
    target = Path(os.path.realpath(path))
    return target, target.with_name(f".{target.name}.{os.urandom(4).hex()}.new")
