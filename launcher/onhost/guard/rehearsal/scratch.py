"""Working directory of a rehearsal: links and an empty output folder; a real run's output is safe (R1)."""

import contextlib
import json
import os
import sys
from typing import Any

from ..context import GuardContext, Report
from ..rank_exit import STOP_EXIT

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGE_ONE = ("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree")
_CHANGE_TWO = ("os.rename", "os.link", "os.symlink")


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
    if kept:
        protect_output(kept, report)


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


def protect_output(output: str, report: Report) -> None:
    """End the rehearsal before Python code writes, renames or deletes anything in the real output folder."""
    pid = os.getpid()

    def audit(event: str, args: Any) -> None:
        paths = _changed_by(event, args)
        if paths and os.getpid() == pid and any(_is_inside(path, output) for path in paths):
            _refuse(os.fsdecode(paths[-1]), report)

    sys.addaudithook(audit)


def _changed_by(event: str, args: Any) -> Any:
    """Return the paths that an audited event is about to change."""
    if event == "open":
        path, mode, flags = args
        touches = ((flags or 0) & _WRITING) != 0 or (isinstance(mode, str) and set(mode) & set("wax+"))
        return (path,) if touches else ()
    if event in _CHANGE_ONE:
        return args[:1]
    return args[:2] if event in _CHANGE_TWO else ()


def _is_inside(path: Any, folder: str) -> bool:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return False
    real = os.path.realpath(os.fsdecode(path))
    return real == folder or real.startswith(folder + os.sep)


def _refuse(path: str, report: Report) -> None:
    message = "the script was about to change %s, which belongs to a real run" % path
    fix = "write elsewhere in rehearsals: `rehearse_args: [--output, '{scratch}/output']` in the config"
    fields = {"code": "R1", "severity": "stop", "message": message, "fix": fix}
    report("guard", **fields, stops=True, step=0, parameters=[])
    said = "gpulaunch rehearsal stopped [R1]: %s\n  fix: %s" % (message, fix)
    print(said, file=sys.stderr, flush=True)
    raise SystemExit(STOP_EXIT)
