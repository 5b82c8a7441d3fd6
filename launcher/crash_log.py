"""A bug's traceback, kept in a file for the report: never arguments, environment or local values."""

import os
import platform
import time
import traceback
from pathlib import Path

from launcher.errors import BadInput
from launcher.local.home import user_state_dir
from launcher.terminal.output import echo_lines


def write_crash_log(error: BaseException, version: str) -> Path | None:
    """Write the traceback to a file of the user's own; return its path, or None when it went to stderr."""
    here = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    text = f"gpulaunch {version}, {here}\n" + "".join(traceback.format_exception(error))
    name = time.strftime("bug-%Y%m%d-%H%M%S", time.gmtime()) + f"-{os.getpid()}.log"
    try:
        folder = user_state_dir()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except (OSError, BadInput):
        echo_lines(text.split("\n"), err=True)  # nowhere to keep it; a bug must not vanish
        return None
    return path
