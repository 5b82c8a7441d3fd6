"""The folders above the current one that may hold a project's files, as git looks for its root."""

import os
import stat
from pathlib import Path

FOLDER = "gpulaunch"
SUFFIXES = (".yaml", ".yml")
RUNS = "gpulaunch-runs"
_MOST = 40


def list_folders_up() -> tuple[Path, ...]:
    """Return the current folder and those above it in which a project's files count, nearest first.

    It ends at git's root, at the user's home and at the root of a file system. A folder of another user, or
    one that any user may write to, counts only as the working directory: its content is not one's own.
    """
    found = [Path()]
    try:
        here = Path.cwd()
        home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path's own raises where there is none
        device = here.stat().st_dev
        while len(found) < _MOST and not (here / ".git").exists() and here != home:
            above = here.parent
            facts = above.stat()
            if above == here or facts.st_dev != device or facts.st_uid != os.geteuid():
                break
            if facts.st_mode & stat.S_IWOTH:
                break
            found.append(found[-1] / "..")
            here = above
    except OSError:  # a folder that is gone, or that may not be looked into
        pass
    return tuple(found)


def local_runs_dir() -> Path:
    """Return where runs of this project are kept: one place, whichever of its folders is the working
    directory.

    It is beside the nearest `gpulaunch/` with run configs, unless a nearer folder has one already; else in
    the working directory.
    """
    for folder in list_folders_up():
        if (folder / RUNS).is_dir() or holds_configs(folder):
            return folder / RUNS
    return Path(RUNS)


def holds_configs(folder: Path) -> bool:
    """Return whether a folder has run configs of its own; a checkout of gpulaunch, say, has none."""
    files = (folder / FOLDER).glob("*.y*ml")
    return any(path.suffix in SUFFIXES and not path.stem.startswith("hosts") for path in files)


def find_up(name: str) -> Path | None:
    """Return the nearest regular file of a name in these folders."""
    return next((folder / name for folder in list_folders_up() if (folder / name).is_file()), None)
