"""Source files of a local training script: of a module that it imports the text, never executed."""

import os.path
from pathlib import Path

from preflight.script.bounds import MAX_MODULE


def read_source(path: str) -> str | None:
    """Return a file's text, of one that is too large to be judged its start; None: no file."""
    if not os.path.isfile(path):  # noqa: PTH113 - most do not exist, and a Path costs ten times the look
        return None
    try:
        with Path(path).open("rb") as opened:
            data = opened.read(4 * MAX_MODULE + 1)
    except (OSError, ValueError):
        return None
    return data.decode("utf-8-sig", errors="replace")[: MAX_MODULE + 1]
