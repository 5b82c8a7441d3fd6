"""Source files of a local training script: of a module that it imports the text, never executed."""

from pathlib import Path

from preflight.script.bounds import MAX_MODULE


def read_source(path: str) -> str | None:
    """Return a file's text, of one that is too large to be judged its start; None: no file."""
    file = Path(path)
    try:
        if not file.is_file():
            return None
        with file.open("rb") as opened:
            data = opened.read(4 * MAX_MODULE + 1)
    except (OSError, ValueError):
        return None
    return data.decode("utf-8-sig", errors="replace")[: MAX_MODULE + 1]
