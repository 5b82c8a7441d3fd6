"""Working directory of a rehearsal: a directory of links, whose output folder is empty."""

import contextlib
import json
import os
import sys
from typing import Any

from ..context import GuardContext, Report
from .output_protection import protect_output

SCRATCH = ".gpulaunch-rehearsal"


def enter_scratch(place: GuardContext, report: Report) -> None:
    """Move the script to a copy of its directory made of links, where its output folder is empty.

    Files that it writes under a relative path in that folder leave a former run untouched. Raises OSError
    when the copy cannot be made: a rehearsal without it must not start.
    """
    real = os.getcwd()
    output = os.path.expanduser(os.environ.get("GPULAUNCH_OUTPUT", ""))
    scratch = os.path.join(real, SCRATCH, os.environ.get("GPULAUNCH_RUN_ID", "") or str(os.getppid()))
    hidden = os.path.relpath(os.path.join(real, output), real) if output else ""
    outside = hidden.split(os.sep)[0] in ("..", ".", "")
    kept = os.path.realpath(os.path.join(real, output)) if output else ""
    # Recorded before it is made, by the first rank of this host: any rank may be killed at any time.
    note = os.path.join(place.run_dir, "scratch.json")
    if not os.path.exists(note):
        _write_once(note, {"scratch": scratch, "output": kept, "before": _stamps(kept)})
    os.makedirs(scratch, exist_ok=True)
    _link_all(real, scratch, [] if outside else hidden.split(os.sep))
    os.chdir(scratch)
    sys.argv[:] = [word.replace("{scratch}", scratch) for word in sys.argv]
    if output:
        protect_output(os.path.realpath(os.path.join(real, output)), report)


def _link_all(real: str, scratch: str, hidden: list[str]) -> None:
    """Fill a directory with links to another one's entries, except the path `hidden`."""
    for name in os.listdir(real):
        if name == SCRATCH:
            continue
        if hidden and name == hidden[0]:
            if len(hidden) > 1 and os.path.isdir(os.path.join(real, name)):
                os.makedirs(os.path.join(scratch, name), exist_ok=True)
                _link_all(os.path.join(real, name), os.path.join(scratch, name), hidden[1:])
            continue
        with contextlib.suppress(FileExistsError):  # another rank of this host was faster
            os.symlink(os.path.join(real, name), os.path.join(scratch, name))


def _stamps(folder: str) -> dict[str, list[int]]:
    """Return size and time of every file below a folder."""
    found: dict[str, list[int]] = {}
    for base, _, names in os.walk(folder) if folder else ():
        for name in names:
            path = os.path.join(base, name)
            with contextlib.suppress(OSError):
                info = os.lstat(path)
                found[os.path.relpath(path, folder)] = [info.st_size, info.st_mtime_ns]
    return found


def _write_once(path: str, value: Any) -> None:
    """Write a complete file, unless another process was faster."""
    fresh = "%s.%d.new" % (path, os.getpid())
    with open(fresh, "w") as file:
        json.dump(value, file)
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        os.replace(fresh, path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(fresh)


def remove_scratch(run_dir: str) -> dict[str, Any]:
    """Remove a rehearsal's files; return the files of the real output that changed meanwhile."""
    import shutil

    try:
        with open(os.path.join(run_dir, "scratch.json"), "rb") as file:
            note = json.loads(file.read())
    except FileNotFoundError:
        return {"removed": True, "changed": []}  # no rank came this far
    scratch = note["scratch"]
    if os.path.basename(os.path.dirname(scratch)) == SCRATCH:
        shutil.rmtree(scratch, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(scratch))
    before, after = note["before"], _stamps(note["output"])
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    return {"removed": not os.path.lexists(scratch), "scratch": scratch, "changed": changed[:20]}
