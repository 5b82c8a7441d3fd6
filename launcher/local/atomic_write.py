"""Writing a local file: the whole of it or nothing."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from preflight.errors import BadInput

_DEVICES = (Path("/dev"), Path("/proc"))


def write_atomic(path: Path, text: str) -> None:
    """Write text to a file, which appears only once it is complete.

    A link stays one: what it leads to is written. A file keeps its permissions. Raises OSError
    naming the file, and BadInput where there is no directory for it.
    """
    if not path.absolute().parent.is_dir():
        raise BadInput(f"{path}: there is no directory {path.parent}", "make it, or name another file")
    if any(above in path.absolute().parents for above in _DEVICES) or (path.exists() and not path.is_file()):
        path.write_text(text, encoding="utf-8")  # /dev/stdout, a pipe: nothing to put in its place
        return
    target = Path(os.path.realpath(path))
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        with fresh.open("x", encoding="utf-8") as file:  # never through a link that another user has laid
            file.write(text)
        with suppress(FileNotFoundError):
            fresh.chmod(stat.S_IMODE(target.stat().st_mode))
        fresh.replace(target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
