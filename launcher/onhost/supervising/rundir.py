"""The run directory, `$XDG_STATE_HOME/gpulaunch/runs/RUN_ID`, mode 0700: its place, and what lies there.

spec.json             the plan of this node, without what is secret
state.json            how the run stands, replaced atomically
events.jsonl          one JSON object per line, one write each; `t` is the wall clock, `m` the monotonic one
launcher.log, rank-N.log, supervisor.log
client                the monotonic time of the last word from a client
detached              there once nobody needs to follow
stop.json             who asked to stop, with which grace, and whether every rank's stacks are wanted first
sizes.jsonl           how long each log was at which time
usage.jsonl           what was used at which time; gauge.py, which lies there too where the plan sent it,
                      writes that from a process of its own
stacks-rank-N.log     where each rank stood before a hung run was ended, by stacks.py
lifeline              the FIFO by which the ranks end with guardian and supervisor
reserve               room on a full disk for how the run ended
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Any

from .files import read_json
from .processes import boot_id, is_same
from .wire import Refused

SPEC = "spec.json"
STATE = "state.json"
EVENTS = "events.jsonl"
LAUNCHER_LOG = "launcher.log"
SUPERVISOR_LOG = "supervisor.log"
CLIENT = "client"
DETACHED = "detached"
STOP = "stop.json"
SIZES = "sizes.jsonl"
USAGE = "usage.jsonl"
LIFELINE = "lifeline"
RESERVE = "reserve"
GAUGE = "gauge.py"
STACKS = "stacks.py"


def runs_dir() -> str:
    """Return where the runs of this user lie on this host."""
    home = os.environ.get("HOME") or os.path.expanduser("~")
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "gpulaunch", "runs")


def find_run(run_id: str) -> str:
    """Return the directory of a run. Raises Refused when it is not on this host."""
    path = os.path.join(runs_dir(), run_id)
    if (
        not run_id
        or "/" in run_id
        or run_id.startswith(".")
        or not stat.S_ISDIR(os.stat(path).st_mode if os.path.exists(path) else 0)
    ):
        raise Refused("no run called %s on this host" % run_id)
    return path


def log_sizes(run_dir: str) -> dict[str, int]:
    """Return how long each log of a run is, in bytes."""
    sizes = {}
    with contextlib.suppress(OSError), os.scandir(run_dir) as entries:
        for entry in entries:
            if entry.name.endswith(".log"):
                with contextlib.suppress(OSError):
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
    return sizes


def read_state(run_dir: str) -> dict[str, Any]:
    """Return state.json, empty when there is none."""
    return read_json(os.path.join(run_dir, STATE)) or {}


def is_alive(state: dict[str, Any]) -> bool:
    """Return whether supervisor or guardian of a state.json still run."""
    if not state or state.get("boot_id") != boot_id():
        return False
    return any(state.get(who) and is_same(*state[who]) for who in ("supervisor", "guardian"))


def look(run_dir: str, known: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return state.json, or what was known of it when it is gone, and whether its keepers live."""
    state = read_state(run_dir) or known
    alive = is_alive(state)
    if not alive:  # they may have written their end and gone between the two looks
        state = read_state(run_dir) or state
    return state, alive
