"""Texts of small local files, which something names: settings, a script."""

from pathlib import Path


def read_small_text(path: Path, largest: int) -> str | None:
    """Return a file's text in UTF-8, None for one that is larger (in bytes), absent or no such text."""
    try:
        is_small = path.is_file() and path.stat().st_size <= largest
        return path.read_text(encoding="utf-8-sig") if is_small else None
    except (OSError, ValueError):
        return None
