"""Disk space kept back at the start of a run and freed at its end, which a full disk then still records."""

import contextlib
import os

from .files import write_file

RESERVE = "reserve"
RESERVE_BYTES = 64 << 10


def reserve_space(run_dir: str) -> None:
    """Write the file that takes the space. Raises OSError where the disk has none left."""
    write_file(os.path.join(run_dir, RESERVE), "\0" * RESERVE_BYTES)


def free_space(run_dir: str) -> None:
    """Remove that file, where it still is."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(run_dir, RESERVE))
