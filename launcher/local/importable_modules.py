"""The Python modules that lie in a directory of the user's own."""

from itertools import islice
from pathlib import Path

_MOST_ENTRIES = 2000
_MOST_INSIDE = 200


def list_own_modules(directory: Path) -> frozenset[str]:
    """Return the names under which scripts started in `directory`, or in its src/, import its own files.

    A directory counts where it holds a Python file, itself or one level below. What cannot be read has none.
    """
    return frozenset(name for root in (directory, directory / "src") for name in _names(root))


def _names(root: Path) -> list[str]:
    try:
        entries = list(islice(root.iterdir(), _MOST_ENTRIES))
    except OSError:
        return []
    files = [entry.stem for entry in entries if entry.suffix == ".py"]
    return files + [entry.name for entry in entries if entry.name.isidentifier() and _holds_python(entry)]


def _holds_python(directory: Path) -> bool:
    try:
        inside = list(islice(directory.iterdir(), _MOST_INSIDE))
    except OSError:
        return False
    if any(entry.suffix == ".py" for entry in inside):
        return True
    return any((entry / "__init__.py").is_file() for entry in inside)
