"""Where a command leaves an HTML page."""

from pathlib import Path

from launcher.local.atomic_write import write_atomic
from launcher.terminal.output import echo, echo_text


def leave_page(page: str, target: Path) -> None:
    """Print the page where the target is -, else write it and say how large it is."""
    if str(target) == "-":
        echo_text(page)
        return
    write_atomic(target, page)
    echo(f"{target}: {len(page.encode()) / 1024:.0f} KiB", err=True)
