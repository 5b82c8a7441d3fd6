"""next.json and decided.json: whether another start follows one that has failed, and who makes it.

The guardian of a run with `restart:` outlives a start that has failed, as its keeper: it holds what a restart
needs in memory only (a memfd, for that has the values of the environment), so that nothing continues after a
reboot. Who holds the lock (flock) on that memfd decides: a client that follows or attaches, else the keeper,
for which the host's restarter (on_host.py) does it with the same lock.

Who writes what, in this order; who reads state.json first never takes a start for the last too early:

1. HELD, by the supervisor or the guardian that ends the start: before state.json says `ended`.
2. RESTARTING, by the owner of the lock. A client that leaves undecided puts HELD back; a keeper that cannot
   restart writes WAITS. Any of them holds as long as keeper or restarter lives, and no longer: a killed
   keeper leaves the restart to its restarter; once both are gone only a client that follows can.
3. RESTARTED, by the supervisor of the next start where that is on this host (the client that asked for it may
   be dead by then); by the owner of the lock where it is on another one.
4. ENDED, by the owner of the lock (no restart is left, or none helps), or by a stop.

RESTARTED and ENDED are decisions, in a file of their own that can be made only once: of two the first counts.
`start` refuses to follow a start that was decided otherwise; a new start that comes second ends itself.
"""

import contextlib
import fcntl
import json
import os
import signal
import time
from typing import Any

from .client_files import is_stopped_by_person, write_stop
from .end_causes import NO_CLIENT, SIGNAL
from .files import read_json, write_file, write_over
from .node import is_on_this_node, read_node_location
from .processes import is_same, read_start_ticks, signal_all
from .run_dir import DECIDED, NEXT, ROOM, STOP

HELD = "held"  # its client is to decide, or is about to be given up
WAITS = "waits"  # for a client that attaches
RESTARTING = "restarting"  # the host or a client holds the lock
RESTARTED = "restarted"  # as the start `run_id`
ENDED = "ended"  # no further start
OVER = (RESTARTED, ENDED)
ROOM_BYTES = 4 << 10
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
    document = {
        **read_node_location(),
        "keeper": [keeper, read_start_ticks(keeper)],
        "order_fd": spec["order_fd"],
    }
    with contextlib.suppress(OSError):
        write_next(run_dir, HELD, document=document)
        write_file(os.path.join(run_dir, ROOM), "\0" * ROOM_BYTES)


def may_follow(run_dir: str, end: dict[str, Any]) -> bool:
    """Return whether no person, lost client or good end rules a restart out; its rules judge all else."""
    by_client = end.get("cause") != SIGNAL and not os.path.exists(os.path.join(run_dir, STOP))
    if is_stopped_by_person(run_dir) or (end.get("requested") and by_client) or end.get("cause") == NO_CLIENT:
        return False
    codes = [end.get("launcher_code"), *(end.get("ranks") or {}).values()]
    return bool(end.get("why")) or any(code != 0 for code in codes)


def read_next(run_dir: str) -> dict[str, Any]:
    """Return what was decided, else next.json, empty when there is none."""
    return read_json(os.path.join(run_dir, DECIDED)) or read_json(os.path.join(run_dir, NEXT)) or {}


def write_next(
    run_dir: str, state: str, *, document: dict[str, Any] | None = None, restarter: int = 0, **says: str
) -> None:
    """Write what comes next, unless that is decided; who keeps it stays as it is. Raises OSError.

    It `says` why, by whom and as which run_id, as far as that is known.
    """
    known = read_next(run_dir) if document is None else document
    changes: dict[str, Any] = {"state": state, "why": "", "run_id": "", "by": "", **says, "at": time.time()}
    changes["restarter"] = [restarter, read_start_ticks(restarter)] if restarter else None
    text = json.dumps({**known, **changes}) + "\n"
    if state not in OVER:
        write_file(os.path.join(run_dir, NEXT), text)
        return
    fresh = os.path.join(run_dir, "%s.%s.%d" % (DECIDED, state, os.getpid()))
    try:
        write_file(fresh, text)
    except OSError:
        os.rename(os.path.join(run_dir, ROOM), fresh)
        write_over(fresh, text)
    make_once(fresh, os.path.join(run_dir, DECIDED))


def make_once(fresh: str, path: str) -> None:
    """Give a whole file its name unless that is taken. Raises OSError."""
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass
    except OSError:  # a file system may lack hard links
        with contextlib.suppress(FileExistsError):
            os.symlink(fresh, path)
            return
    os.unlink(fresh)


def is_kept(document: dict[str, Any]) -> bool:
    """Return whether another start may still come: its keeper lives, or what that has sent to make it."""
    if document.get("state") in (None, *OVER) or not is_on_this_node(document):
        return False
    return any(is_same(*minder) for minder in list_minders(document).items())


def list_minders(document: dict[str, Any]) -> dict[int, int]:
    """Return by pid the start ticks of the keeper, and of what restarts the run for the host or a client."""
    return dict(document[who] for who in ("keeper", "restarter") if document.get(who))


def open_order(document: dict[str, Any]) -> int:
    """Open what the keeper holds, with a lock of its own to take. Raises OSError."""
    return os.open("/proc/%d/fd/%d" % (document["keeper"][0], document["order_fd"]), os.O_RDWR | os.O_CLOEXEC)


def note_successor(before: str, run_dir: str) -> bool:
    """Note at the start before that this one follows it; return False where it may not."""
    run_id = os.path.basename(run_dir)
    with contextlib.suppress(OSError):
        write_next(before, RESTARTED, run_id=run_id, by=str(read_next(before).get("by") or ""))
    why = rule_out(read_next(before), run_id)
    if why:
        write_stop(run_dir, {"why": why, "grace_s": 0.0})
    return not why


def rule_out(document: dict[str, Any], run_id: str) -> str:
    """Return why a start may not follow the one that this was decided of, "" where it may."""
    if document.get("state") == RESTARTED and document.get("run_id") != run_id:
        return "it was started again as %s" % document.get("run_id")
    return str(document.get("why")) if document.get("state") == ENDED else ""


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


def stop_keeper(run_dir: str, why: str) -> None:
    """Have the keeper make no further start, and wait for that; nor may a client whose keeper was killed."""
    document = read_next(run_dir)
    if document.get("state") in (None, *OVER) or not is_on_this_node(document):
        return
    write_stop(run_dir, {"why": why})
    signal_all(list_minders(document), signal.SIGTERM)
    give_up = time.monotonic() + STOP_WAIT_S
    while is_kept(read_next(run_dir)) and time.monotonic() < give_up:
        time.sleep(0.02)
    with contextlib.suppress(OSError):
        if read_next(run_dir).get("state") not in OVER:  # its keeper had been killed
            write_next(run_dir, ENDED, why=why, by="host")
