"""Texts of local files that a training script is judged by: its own, of the modules that it imports."""

import io
import os.path
import tokenize
from pathlib import Path

from preflight.script.bounds import MAX_MODULE

_MAX_MODULES = 200  # names of a folder that are returned


def read_source(path: str) -> str | None:
    """Return a file's text, of one that is too large to be judged its start; None: no file.

    Of FOLDER/* the names of the modules in a folder, a line each; None: it has none.
    """
    if path.endswith("/*"):
        return "\n".join(_modules_of(path[:-2])) or None
    if not os.path.isfile(path):  # noqa: PTH113 - most do not exist, and a Path costs ten times the look
        return None
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(4 * MAX_MODULE + 1)
    except (OSError, ValueError):
        return None
    return data.decode("utf-8-sig", errors="replace")[: MAX_MODULE + 1]


def find_decoding_error(path: str) -> SyntaxError | None:
    """Return what stops Python at a file that is in no encoding that it declares, None where nothing does."""
    data = Path(path).read_bytes()
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        data.decode(encoding)
    except UnicodeDecodeError as error:
        found = SyntaxError(f"byte 0x{data[error.start]:02x} is not {error.encoding}")
        found.lineno = data.count(b"\n", 0, error.start) + 1
        return found
    except SyntaxError as error:  # of its first two lines
        return error
    return None


def _modules_of(folder: str) -> list[str]:
    """Return the names of the modules and packages in a folder, at most _MAX_MODULES."""
    try:
        entries = sorted(Path(folder).iterdir())
    except OSError:
        return []
    files = [entry for entry in entries if entry.suffix == ".py" or (entry / "__init__.py").is_file()]
    return [entry.stem for entry in files if entry.stem != "__init__"][:_MAX_MODULES]
