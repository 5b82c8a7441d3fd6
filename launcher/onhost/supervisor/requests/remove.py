"""remove: delete the directory of a run that is over."""

import os
import shutil
import time
from typing import Any

from ...run_cgroup import find_group
from ..next_start import is_kept, read_next
from ..protocol import RequestRefused, send_header
from ..run_dir import SILLY, is_alive, read_state
from ..run_processes import find_run_processes

GONE = ".gone"


def serve(run_dir: str, _request: dict[str, Any]) -> int:
    """Delete the directory of a run and send its last state. Raises RequestRefused."""
    state = read_state(run_dir) if run_dir else {}
    if run_dir:  # else another client, which has seen the run too, was faster
        remove_run(run_dir)
    send_header({"state": state, "alive": is_alive(state), "t": time.time()})
    return 0


def demand_end(run_dir: str, name: str) -> None:
    """Raise RequestRefused while any process of the run lives, or may be started again."""
    if is_kept(read_next(run_dir)):
        raise RequestRefused("%s may be started again; stop it first" % name, "gpulaunch stop %s" % name)
    if is_alive(read_state(run_dir)):
        raise RequestRefused("%s still runs; stop it first" % name, "gpulaunch stop %s" % name)
    alive = find_run_processes(run_dir, {os.getpid()})
    if alive:
        raise RequestRefused("processes of %s still live: %s" % (name, sorted(alive)))


def remove_run(run_dir: str) -> None:
    """Delete a run directory. Raises RequestRefused while any process of the run lives."""
    name = os.path.basename(run_dir)
    demand_end(run_dir, name)
    group = find_group(read_state(run_dir))
    if group is not None:
        group.remove()  # supervisor and guardian were killed together
    place = os.path.dirname(run_dir)
    gone = os.path.join(place, ".%s.%d%s" % (name, os.getpid(), GONE))
    try:
        os.rename(run_dir, gone)  # so that a half-deleted directory is never taken for a run
    except FileNotFoundError:
        return  # another request has removed it
    except OSError as error:
        raise RequestRefused("%s cannot be removed: %s" % (run_dir, error)) from None
    for entry in os.listdir(place):
        if entry.startswith(".") and entry.endswith(GONE):  # also files that were still open the last time
            shutil.rmtree(os.path.join(place, entry), ignore_errors=True)
    if not has_only_open_files(gone):
        try:
            shutil.rmtree(gone)
        except OSError as error:
            raise RequestRefused("%s cannot be removed: %s" % (run_dir, error)) from None


def has_only_open_files(directory: str) -> bool:
    """Return whether only open files remain: NFS keeps those under names of its own."""
    failed: list[OSError] = []
    names = [name for _, _, names in os.walk(directory, onerror=failed.append) for name in names]
    if not all(isinstance(error, FileNotFoundError) for error in failed):
        return False
    return all(name.startswith(SILLY) for name in names)
