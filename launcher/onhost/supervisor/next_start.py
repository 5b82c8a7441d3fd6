"""next.json: whether another start follows one that has failed, and who makes it.

The guardian of a run with `restart:` outlives a start that has failed, as its keeper: it holds what a restart
needs in memory only (a memfd, for that has the values of the environment), so that nothing continues after a
reboot. Who holds the lock (flock) on that memfd decides: a client that follows or attaches, else the keeper.
"""

import contextlib
import fcntl
import json
import os
import signal
import time
from typing import Any

from .client_files import is_detached, is_stopped_by_person, write_stop
from .end_causes import SIGNAL
from .files import read_json, write_file
from .node import is_on_this_node, node_location
from .processes import is_same, signal_all, ticks_of
from .run_dir import NEXT, STOP

HELD = "held"  # its client is to decide, or is about to be given up
WAITS = "waits"  # for a client that attaches
RESTARTING = "restarting"  # the host or a client holds the lock
RESTARTED = "restarted"  # as the start `run_id`
ENDED = "ended"  # no further start
OVER = (RESTARTED, ENDED)
STOP_WAIT_S = 10.0


def hold_order(spec: dict[str, Any]) -> int:
    """Move what a restart needs out of the spec into a memfd; return its descriptor, -1 for none."""
    order = spec.pop("restart_order", None)
    if not order:
        return -1
    fd = os.memfd_create("gpulaunch-restart")
    with open(fd, "w", closefd=False) as file:
        file.write(order)
    spec["order_fd"] = fd
    return fd


def announce_keeper(run_dir: str, spec: dict[str, Any], end: dict[str, Any], keeper: int) -> None:
    """Write next.json where the start may be followed by another one; before the end is in state.json."""
    if not spec.get("order_fd") or not may_follow(run_dir, end):
        return
    document = {**node_location(), "keeper": [keeper, ticks_of(keeper)], "order_fd": spec["order_fd"]}
    with contextlib.suppress(OSError):
        write_next(run_dir, HELD, document=document)


def may_follow(run_dir: str, end: dict[str, Any]) -> bool:
    """Return whether a person or a good end rules a restart out; all else is judged by the client's rules.

    A run that no client has released yet is its client's alone.
    """
    by_client = end.get("cause") != SIGNAL and not os.path.exists(os.path.join(run_dir, STOP))
    if is_stopped_by_person(run_dir) or (end.get("requested") and by_client):
        return False
    codes = [end.get("launcher_code"), *(end.get("ranks") or {}).values()]
    return is_detached(run_dir) and not (not end.get("why") and all(code == 0 for code in codes))


def read_next(run_dir: str) -> dict[str, Any]:
    """Return next.json, empty when there is none."""
    return read_json(os.path.join(run_dir, NEXT)) or {}


def write_next(
    run_dir: str,
    state: str,
    *,
    document: dict[str, Any] | None = None,
    why: str = "",
    run_id: str = "",
    by: str = "",
) -> None:
    """Write what comes next; who keeps it stays as it is. Raises OSError."""
    known = read_next(run_dir) if document is None else document
    changes = {"state": state, "why": why, "run_id": run_id, "by": by, "at": time.time()}
    write_file(os.path.join(run_dir, NEXT), json.dumps({**known, **changes}) + "\n")


def is_kept(document: dict[str, Any]) -> bool:
    """Return whether another start may still come: its keeper lives."""
    if document.get("state") in (None, *OVER) or not is_on_this_node(document):
        return False
    return is_same(*document["keeper"])


def open_order(document: dict[str, Any]) -> int:
    """Open what the keeper holds, with a lock of its own to take. Raises OSError."""
    return os.open("/proc/%d/fd/%d" % (document["keeper"][0], document["order_fd"]), os.O_RDWR | os.O_CLOEXEC)


def read_order(fd: int) -> str:
    """Return what a restart needs, as JSON."""
    return os.pread(fd, os.fstat(fd).st_size, 0).decode()


def try_lock(fd: int) -> bool:
    """Take the lock of the one that decides; return False when another one has it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def stop_keeper(run_dir: str, why: str) -> bool:
    """Have the keeper make no further start, and wait for that; return whether it was about to."""
    document = read_next(run_dir)
    if not is_kept(document):
        return False
    write_stop(run_dir, {"why": why})
    signal_all(dict([document["keeper"]]), signal.SIGTERM)
    give_up = time.monotonic() + STOP_WAIT_S
    while is_kept(read_next(run_dir)) and time.monotonic() < give_up:
        time.sleep(0.02)
    return True
