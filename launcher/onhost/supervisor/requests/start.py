"""start: make the run directory, start guardian and supervisor in it, then follow."""

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import time
from typing import Any

from ...event_file import EVENTS
from ..client_files import record_heartbeat
from ..daemon.daemonize import run_and_exit
from ..daemon.guardian import run_guardian
from ..files import read_json, read_tail, reserve_space, write_file
from ..next_start import read_next, rule_out
from ..node import MAX_TWINS, is_on_this_node, read_file_system_time, read_node_location
from ..processes import read_boot_id, read_start_ticks
from ..protocol import RequestRefused, send_header
from ..run_dir import (
    HEARTBEAT,
    LAUNCHER_LOG,
    LIFELINE,
    SPEC,
    STATE,
    SUPERVISOR_LOG,
    list_own_places,
    mark_place,
    runs_dir,
)

UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}\.\d+")  # a run directory that is being filled
UNFINISHED_S = 3600.0  # after which nothing fills it any more
MEMORY_ONLY = ("files", "rank_source", "env", "restart_order")
"""Of the spec: what is in files of its own, and what may be secret."""


def serve(request: dict[str, Any]) -> int:
    """Start a run and follow it. Raises RequestRefused."""
    spec = request["spec"]
    before = find_previous_start(spec)
    run_dir = make_run_dir(spec)
    spec["earlier_dir"] = before
    ready = fork_guardian(spec, run_dir)
    state = wait_first_state(ready, run_dir)
    send_header({"state": state, "t": time.time(), "m": time.monotonic()})
    from .follow import follow_started  # compiled while the launcher starts

    return follow_started(run_dir)


def find_previous_start(spec: dict[str, Any]) -> str:
    """Return the start before this one, "" where it is elsewhere. Raises RequestRefused of a decided one."""
    known = spec.get("restart") or {}
    starts = [str(start.get("run_id")) for start in known.get("starts") or ()]
    # The one before may have come to nothing on this host: then it follows the one before that.
    ids = [run_id for run_id in (known.get("after"), *reversed(starts)) if run_id]
    paths = [os.path.join(place, run_id) for run_id in ids for place in list_own_places()]
    before = next((path for path in paths if os.path.isdir(path)), "")
    document = read_next(before) if before else {}
    if why := rule_out(document, spec["run_id"]):
        raise RequestRefused("%s is not started again: %s" % (os.path.basename(before), why))
    return before if document or not spec.get("node_rank") else ""


def make_run_dir(spec: dict[str, Any]) -> str:
    """Create and fill the run directory. Raises RequestRefused when it exists or cannot be written."""
    place = list_own_places()[0]
    fresh = os.path.join(place, ".%s.%s.%d" % (spec["run_id"], read_boot_id()[:8], os.getpid()))
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        os.makedirs(place, mode=0o700, exist_ok=True)
        os.mkdir(fresh, 0o700)
    except OSError as error:
        raise RequestRefused("the run directory %s cannot be made: %s" % (fresh, error.strerror)) from None
    try:
        write_first_files(fresh, spec)
        mark_place(place)
        remove_unfinished(place)
        return put_in_place(fresh, spec["run_id"])
    except OSError as error:
        raise RequestRefused("the run directory %s cannot be written: %s" % (fresh, error.strerror)) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def remove_unfinished(place: str) -> None:
    """Remove what starts of ours left behind that were killed while they filled a run directory."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        now = read_file_system_time(place)
        for entry in entries:
            if not UNFINISHED.fullmatch(entry.name):
                continue
            facts = entry.stat(follow_symlinks=False)
            is_own = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()
            if is_own and now - facts.st_mtime > UNFINISHED_S:
                shutil.rmtree(entry.path, ignore_errors=True)


def put_in_place(fresh: str, run_id: str) -> str:
    """Rename a complete run directory to its final name.

    Raises RequestRefused if this node has that run, and OSError.

    If another node that shares this home and has this node's name holds the run, use another place.
    """
    for place in list_own_places()[:MAX_TWINS]:
        path = os.path.join(place, run_id)
        os.makedirs(place, mode=0o700, exist_ok=True)
        try:
            os.rename(fresh, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if is_on_this_node((read_json(os.path.join(path, SPEC)) or {}).get("made_in") or {}):
                why = "%s is already on this host, in %s: do two names of the launch mean this machine?"
                raise RequestRefused(why % (run_id, path)) from None
        else:
            return path
    raise RequestRefused("a run called %s is already in %s" % (run_id, runs_dir()))


def write_first_files(path: str, spec: dict[str, Any]) -> None:
    """Write the first files of a run. Raises OSError, and RequestRefused for one outside of it."""
    for name, text in [["rank.py", spec["rank_source"]], *spec.get("files", [])]:
        inside = os.path.normpath(os.path.join(path, name))
        if not inside.startswith(path + os.sep):
            raise RequestRefused("%r does not lie in the run directory" % name)
        os.makedirs(os.path.dirname(inside), mode=0o700, exist_ok=True)
        write_file(inside, text)
    kept = {key: value for key, value in spec.items() if key not in MEMORY_ONLY}
    kept["made_in"] = here = read_node_location()
    kept["env"] = sorted(spec.get("env", {}))  # names only: values may be secrets
    write_file(os.path.join(path, SPEC), json.dumps(kept, indent=1) + "\n")
    for name in (EVENTS, LAUNCHER_LOG, SUPERVISOR_LOG, HEARTBEAT):
        os.close(os.open(os.path.join(path, name), os.O_WRONLY | os.O_CREAT, 0o600))
    reserve_space(path)
    make_lifeline(os.path.join(path, LIFELINE))
    # Until the supervisor writes its own: a stop that comes first takes it for no lost run.
    begins = {"run_id": spec["run_id"], **here, "phase": "starting", "started": time.time()}
    begins["guardian"] = [os.getpid(), read_start_ticks(os.getpid())]
    write_file(os.path.join(path, STATE), json.dumps(begins))
    record_heartbeat(path)


def make_lifeline(path: str) -> None:
    """Make the FIFO by which the ranks end. Raises RequestRefused where none can be (SMB, sshfs)."""
    try:
        os.mkfifo(path, 0o600)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
        raise RequestRefused(
            "%s is on a file system without FIFOs (%s); set XDG_STATE_HOME on the host to a directory of a"
            " disk, or of one by NFS" % (runs_dir(), error.strerror)
        ) from None


def fork_guardian(spec: dict[str, Any], run_dir: str) -> int:
    """Start the guardian in a session of its own; return the descriptor of the supervisor's first state."""
    ready, done = os.pipe()
    if os.fork() == 0:
        try:
            os.setsid()
            os.close(ready)
            run_and_exit(lambda: run_guardian(spec, run_dir, done))
        finally:
            os._exit(1)
    os.close(done)
    return ready


def wait_first_state(ready: int, run_dir: str) -> dict[str, Any]:
    """Wait for the supervisor's first state. Raises RequestRefused if it refuses or dies first."""
    answer = b""
    while data := os.read(ready, 65536):
        answer += data
    os.close(ready)
    if not answer:
        last = read_tail(os.path.join(run_dir, SUPERVISOR_LOG), 2000)
        raise RequestRefused("the supervisor ended at once: %s" % (last or "it was killed"))
    state: dict[str, Any] = json.loads(answer)
    if "refused" in state:
        raise RequestRefused(state["refused"], state.get("fix", ""))
    return state
