"""start: make the run directory, start guardian and supervisor there, then follow."""

from __future__ import annotations

import json
import os
import time
from typing import Any, Protocol

from ..client import touch_client
from ..daemons.guardian import Early, be_guardian
from ..files import write_file
from ..rundir import EVENTS, LAUNCHER_LOG, LIFELINE, RESERVE, SPEC, SUPERVISOR_LOG, runs_dir
from ..wire import Refused, say

RESERVE_BYTES = 64 << 10


class Egg(Early, Protocol):
    """What began before the plan, as it is known at the client's end (early.Early)."""

    def hatch(self, spec: dict[str, Any], run_dir: str) -> int:
        """Hand the plan over; return the descriptor on which the supervisor's first state comes."""


def start(spec: dict[str, Any], early: Egg | None = None) -> int:
    """Start a run and follow it. Raises Refused.

    With `early` guardian and supervisor wait already, and the launcher's interpreter has begun to import.
    """
    run_dir = make_run_dir(spec)
    ready = early.hatch(spec, run_dir) if early is not None else fork_guardian(spec, run_dir)
    say({"state": first_state(ready, run_dir), "t": time.time()})
    from .following import Follower  # compiled while the launcher starts

    return Follower(run_dir, {}).run()


def make_run_dir(spec: dict[str, Any]) -> str:
    """Create and fill the run directory. Raises Refused when it exists or cannot be written."""
    base = runs_dir()
    path = os.path.join(base, spec["run_id"])
    try:
        os.makedirs(base, mode=0o700, exist_ok=True)
        os.mkdir(path, 0o700)
    except FileExistsError:
        raise Refused("a run called %s is already on this host, in %s" % (spec["run_id"], path)) from None
    except OSError as error:
        raise Refused("the run directory %s cannot be made: %s" % (path, error.strerror)) from None
    try:
        fill(path, spec)
    except OSError as error:
        raise Refused("the run directory %s cannot be written: %s" % (path, error.strerror)) from None
    return path


def fill(path: str, spec: dict[str, Any]) -> None:
    """Write what a run begins with. Raises OSError, and Refused for a file that would lie elsewhere."""
    for name, text in [["rank.py", spec["rank_source"]], *spec.get("files", [])]:
        inside = os.path.normpath(os.path.join(path, name))
        if not inside.startswith(path + os.sep):
            raise Refused("%r does not lie in the run directory" % name)
        os.makedirs(os.path.dirname(inside), mode=0o700, exist_ok=True)
        write_file(inside, text)
    kept = {key: value for key, value in spec.items() if key not in ("files", "rank_source", "env")}
    kept["env"] = sorted(spec.get("env", {}))  # names only: values may be secrets
    write_file(os.path.join(path, SPEC), json.dumps(kept, indent=1) + "\n")
    for name in (EVENTS, LAUNCHER_LOG, SUPERVISOR_LOG):
        os.close(os.open(os.path.join(path, name), os.O_WRONLY | os.O_CREAT, 0o600))
    write_file(os.path.join(path, RESERVE), "\0" * RESERVE_BYTES)
    os.mkfifo(os.path.join(path, LIFELINE), 0o600)
    touch_client(path)


def fork_guardian(spec: dict[str, Any], run_dir: str) -> int:
    """Start the guardian in a session of its own; return where the supervisor's first state comes."""
    ready, done = os.pipe()
    if os.fork() == 0:
        try:
            os.setsid()
            os.close(ready)
            be_guardian(spec, run_dir, done)
        finally:
            os._exit(1)
    os.close(done)
    return ready


def first_state(ready: int, run_dir: str) -> dict[str, Any]:
    """Wait for the supervisor's first state. Raises Refused where it says or shows that there is none."""
    answer = b""
    while data := os.read(ready, 65536):
        answer += data
    os.close(ready)
    if not answer:
        with open(os.path.join(run_dir, SUPERVISOR_LOG), "rb") as log:
            last = log.read()[-2000:].decode("utf-8", "replace")
        raise Refused("the supervisor ended at once: %s" % last)
    state: dict[str, Any] = json.loads(answer)
    if "refused" in state:
        raise Refused(state["refused"])
    return state
