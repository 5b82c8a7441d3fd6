"""Writing a file here: the whole of it or nothing."""

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write text to a file, which is there only once all of it is. Raises OSError naming the file."""
    if path.exists() and not path.is_file():  # a pipe, /dev/stdout: nothing to put in its place
        path.write_text(text, encoding="utf-8")
        return
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
