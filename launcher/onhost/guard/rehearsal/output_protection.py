"""Protection of a real run's output against a rehearsal (R1)."""

import os
import sys
from typing import Any

from ..context import Report
from ..rank_exit import STOP_EXIT

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGE_ONE = ("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "shutil.rmtree")
_CHANGE_TWO = ("os.rename", "os.link", "os.symlink")


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
