"""The run directory, `$XDG_STATE_HOME/gpulaunch/runs/NODE/RUN_ID`, mode 0700: its location and its files.

NODE (node.py) separates hosts that share a home; NODE@TAG beside it is named after the boot in which its
last run began.

spec.json             the plan of this node, without secrets
state.json            state of the run, replaced atomically
events.jsonl          one JSON object per line, one write each; `t` is the wall clock, `m` the monotonic one
launcher.log, rank-N.log, supervisor.log
client                the monotonic time of the client's last heartbeat
detached              exists once the run needs no client
stop.json             stop request: its author, its grace, and whether to dump every rank's stack first
sizes.jsonl           size of each log over time
recent.jsonl(.1)      the same second by second, of the last minutes
usage.jsonl           resource usage over time, written by gauge.py in a process of its own; gauge.py is in
                      the run directory too, if the plan sent it
stacks-rank-N.log     stack of each rank before a hung run was ended, by stacks.py
lifeline              the FIFO by which the ranks end with guardian and supervisor
reserve               space for the final state of the run on a full disk
next.json             whether another start may follow one that has failed, and who makes it
decided.json          the same once that is decided; decided.room: space for it on a full disk
client.pack           the client of the launch, for a restart that the host makes itself
restart/              that client's code and files while it makes the restart
heartbeat             written while the supervisor lives: its monotonic time, and by its time of change the
                      same for nodes that cannot see its process
"""

import contextlib
import os
import re
import stat
import time
from typing import Any

from .files import RESERVE, read_age, read_json
from .node import (
    HEARTBEAT_LOST_S,
    MAX_TWINS,
    is_of_earlier_life,
    is_on_this_node,
    make_life_tag,
    make_node_name,
    parse_host,
    read_file_system_time,
)
from .processes import is_same, is_stopped, read_boot_id, read_start_ticks
from .protocol import RequestRefused

SPEC = "spec.json"
STATE = "state.json"
LAUNCHER_LOG = "launcher.log"
SUPERVISOR_LOG = "supervisor.log"
CLIENT = "client"
DETACHED = "detached"
STOP = "stop.json"
SIZES = "sizes.jsonl"
RECENT, RECENT_BEFORE = "recent.jsonl", "recent.jsonl.1"
USAGE = "usage.jsonl"
LIFELINE = "lifeline"
GAUGE = "gauge.py"
STACKS = "stacks.py"
HEARTBEAT = "heartbeat"
NEXT, DECIDED, ROOM = "next.json", "decided.json", "decided.room"
CLIENT_PACK, RESTART_FOLDER = "client.pack", "restart"
PROGRAMS = ("rank.py", "guard.py", "start_launcher.py", GAUGE, STACKS, CLIENT_PACK)
INTERNAL_FILES = (*PROGRAMS, LIFELINE, CLIENT, RESERVE, ROOM, HEARTBEAT, RECENT, RECENT_BEFORE)
"""Not useful on any other host."""
LIST_RUNS = "gpulaunch ps --all lists your runs"
MARK = "@%s"
SILLY = (".nfs", ".fuse_hidden")  # names that NFS and FUSE give to files deleted while open


def runs_dir() -> str:
    """Return the parent of this user's run directories, with one directory per node."""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "gpulaunch", "runs")


def list_own_places() -> list[str]:
    """Return the places of this node's runs, the one for new runs first; others have, or had, its name."""
    first = os.path.join(runs_dir(), make_node_name())
    named = [first, *("%s+%d" % (first, number) for number in range(2, MAX_TWINS + 1))]
    marked = [path[: -len(MARK % make_life_tag())] for path in list_marks()]
    return named + [place for place in marked if place not in named and os.path.isdir(place)]


def list_marks() -> list[str]:
    """Return the marker files of this life's places, whatever the name of this node was."""
    try:
        names = os.listdir(runs_dir())
    except OSError:
        return []
    return sorted(os.path.join(runs_dir(), name) for name in names if name.endswith(MARK % make_life_tag()))


def mark_place(place: str) -> None:
    """Mark a place as one of this life. Raises OSError."""
    base, node = os.path.split(place)
    mark = place + MARK % make_life_tag()
    os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    for name in os.listdir(base):
        old = re.fullmatch(re.escape(node) + MARK % "[0-9a-f]{12}", name)
        if old and os.path.join(base, name) != mark:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(base, name))


def list_all_places() -> list[str]:
    """Return the places of all nodes that have runs in this home."""
    return list_directories(runs_dir())


def list_runs(place: str, prefix: str = "") -> list[str]:
    """Return the run directories in a place whose run ids start with this prefix."""
    return [path for path in list_directories(place) if os.path.basename(path).startswith(prefix)]


def list_directories(base: str) -> list[str]:
    """Return the subdirectories that are not hidden; none where the directory cannot be read."""
    try:
        with os.scandir(base) as entries:
            return sorted(entry.path for entry in entries if entry.name[0] != "." and entry.is_dir())
    except OSError:
        return []


def is_of_this_node(run_dir: str) -> bool:
    """Return whether a run in one of this node's places belongs to this node.

    It does when it is over, when its processes are visible, or when it is of an earlier life.
    """
    state = read_state(run_dir)
    if state.get("phase") == "ended":
        return True
    said = state or (read_json(os.path.join(run_dir, SPEC)) or {}).get("made_in") or {}
    if is_on_this_node(said):
        return True
    beat = os.path.join(run_dir, HEARTBEAT)
    return is_of_earlier_life(run_dir, beat if os.path.exists(beat) else run_dir)


def find_run(run_id: str, *, is_needed: bool = True) -> str:
    """Return the directory of a run, "" where none `is_needed` or kept. Raises RequestRefused."""
    if not run_id or "/" in run_id or run_id.startswith("."):
        raise RequestRefused("no run called %s on this host" % run_id, LIST_RUNS)
    found = [path for place in list_own_places() if os.path.isdir(path := os.path.join(place, run_id))]
    for path in found:
        if is_of_this_node(path):
            return path
    if found:
        raise RequestRefused(
            "%s runs in a container of this host, or on another host that has its name (%s) and shares its"
            " home: ask that host (or, where this host has just restarted, again in a minute)"
            % (run_id, read_state(found[0]).get("host") or os.uname().nodename)
        )
    others = [place for place in list_all_places() if os.path.isdir(os.path.join(place, run_id))]
    if others:
        names = ", ".join(sorted({parse_host(os.path.basename(place)) for place in others}))
        raise RequestRefused(
            "%s is a run of %s, which shares the home of this host: ask that host" % (run_id, names)
        )
    if not is_needed:
        return ""
    raise RequestRefused(
        "this host has nothing of %s: it was removed, or the disk is new, as when a rented host is started"
        " again" % run_id,
        LIST_RUNS,
    )


def log_sizes(run_dir: str) -> dict[str, int]:
    """Return how long each log of a run is, in bytes."""
    sizes = {}
    with contextlib.suppress(OSError), os.scandir(run_dir) as entries:
        for entry in entries:
            if entry.name.endswith(".log"):
                with contextlib.suppress(OSError):
                    found = entry.stat()
                    if stat.S_ISREG(found.st_mode):
                        sizes[entry.name] = found.st_size
    return sizes


def read_state(run_dir: str) -> dict[str, Any]:
    """Return state.json, empty when there is none."""
    return read_json(os.path.join(run_dir, STATE)) or {}


def is_alive(state: dict[str, Any]) -> bool:
    """Return whether the supervisor or guardian named in a state.json still runs."""
    if not is_on_this_node(state):
        return False
    return any(state.get(who) and is_same(*state[who]) for who in ("supervisor", "guardian"))


def inspect_run(run_dir: str, known: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return state.json, or its last known content, and whether guardian or supervisor lives.

    Without an end, the state of one that is over gets `loss`: what has taken them.
    """
    state = read_state(run_dir) or known
    alive = is_alive(state)
    if not alive:  # they may have written the end and exited between the two checks
        state = read_state(run_dir) or state
        if state and state.get("phase") != "ended":
            state = {**state, "loss": find_loss(state)}
    return state, alive


def describe_stall(run_dir: str, state: dict[str, Any]) -> dict[str, Any] | None:
    """Return what is known of a supervisor that lives and gives no heartbeat; None for any other."""
    supervisor = state.get("supervisor")
    if state.get("phase") == "ended" or not supervisor or not is_same(*supervisor):
        return None
    silent_s = silence_of(run_dir)
    if silent_s <= HEARTBEAT_LOST_S:
        return None
    return {"pid": supervisor[0], "silent_s": silent_s, "stopped": is_stopped(supervisor[0])}


def silence_of(run_dir: str) -> float:
    """Return the seconds since the heartbeat of a run on this node, 0.0 where that is not known.

    A clock that was set and a host that slept make the file look old, a full disk its text: both must be.
    """
    path = os.path.join(run_dir, HEARTBEAT)
    said_s = read_age(path)
    if said_s is not None and said_s <= HEARTBEAT_LOST_S:
        return said_s
    with contextlib.suppress(OSError):
        beat = os.stat(path).st_mtime
        silent_s = time.time() - beat
        if silent_s > HEARTBEAT_LOST_S:
            silent_s = read_file_system_time(run_dir) - beat  # our clock is not that of a file server
        return silent_s if said_s is None else min(silent_s, said_s)
    return 0.0


def find_loss(state: dict[str, Any]) -> str | None:
    """Return how a run that is over was lost: "host", "container" or "killed"; None: unknown."""
    here, before = read_boot_id(), state.get("boot_id")
    if not (here and before):
        return None
    if before != here:
        return "host"
    # The kernel gives the number of a namespace again: what began before PID 1 was in another one.
    began = (state.get("supervisor") or state.get("guardian") or [0])[-1]
    return "killed" if is_on_this_node(state) and began >= read_start_ticks(1) else "container"
