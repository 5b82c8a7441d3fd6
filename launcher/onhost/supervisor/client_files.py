"""Files that a client writes to a run directory: its heartbeat, `detached`, and its stop request."""

import contextlib
import json
import os
import signal
from typing import Any, Mapping, NamedTuple

from ..event_file import EVENTS, append_event
from .end_causes import HANG, PEER, REQUEST, SIGNAL
from .files import read_age, read_json, write_file, write_time
from .node import is_on_this_node
from .processes import is_same, send_signal, signal_all
from .run_dir import CLIENT, DETACHED, STOP, read_state

STOP_GRACE_S = 10.0  # from SIGTERM to SIGKILL when the request names no other
END_S = 15.0  # for a busy supervisor's last words, after SIGKILL and the wait for what that does not end


class StopRequest(NamedTuple):
    """Request to end a run.

    `why` is empty when the run ended on its own; `cause` is one of end_causes.py; with `stacks`, every rank's
    stack is dumped first; with `failed`, a client ends it for a failure elsewhere, and no person does.
    """

    why: str
    grace_s: float
    cause: str = REQUEST
    requested: bool = False
    stacks: bool = False
    failed: bool = False


def record_heartbeat(run_dir: str) -> None:
    """Record that a client was heard, by the monotonic clock: no clock jump or full disk can end a run."""
    with contextlib.suppress(OSError):
        write_time(os.path.join(run_dir, CLIENT))


def count_silent_seconds(run_dir: str) -> float | None:
    """Return the seconds since a client was last heard, None when unknown."""
    return read_age(os.path.join(run_dir, CLIENT))


def is_detached(run_dir: str) -> bool:
    """Return whether a client has released the run from needing a follower."""
    return os.path.exists(os.path.join(run_dir, DETACHED))


def detach_run(run_dir: str) -> None:
    """Let the run continue without a client, and record that once among the events. Raises OSError."""
    if is_detached(run_dir):
        return
    write_file(os.path.join(run_dir, DETACHED), "")
    with contextlib.suppress(OSError):
        append_event(os.path.join(run_dir, EVENTS), "detached")


def request_stop(run_dir: str, request: StopRequest, known: Mapping[str, Any] | None = None) -> bool:
    """Write the stop request and signal the supervisor; return False when no supervisor runs.

    `known` is the last state that was read: it counts while a deleted run directory is not restored yet.
    """
    if not is_on_this_node(read_state(run_dir) or known or {}):
        return False
    failed = request.failed and not is_stopped_by_person(run_dir)
    said = {"grace_s": request.grace_s, "why": request.why, "stacks": request.stacks, "failed": failed}
    write_stop(run_dir, said)  # first: a supervisor that is about to start looks for it
    pid, ticks = (read_state(run_dir) or known or {}).get("supervisor") or (0, 0)
    if not is_same(pid, ticks):
        return False
    signal_all({pid: ticks}, signal.SIGTERM)
    return True


def kill_supervisor(run_dir: str, known: Mapping[str, Any] | None = None) -> None:
    """Kill a supervisor (`known` as in request_stop) that ends late: its guardian ends what is left."""
    state = read_state(run_dir) or known or {}
    if state.get("phase") == "ended" or not is_on_this_node(state):
        return
    for who, number in (("supervisor", signal.SIGKILL), ("guardian", signal.SIGCONT)):
        if state.get(who):
            pid, ticks = state[who]
            send_signal(pid, ticks, number)


def write_stop(run_dir: str, document: Mapping[str, Any]) -> None:
    """Write stop.json, empty on a full disk; no restart follows; its signal means the usual grace."""
    path = os.path.join(run_dir, STOP)
    with contextlib.suppress(OSError):
        try:
            write_file(path, json.dumps(document))
        except OSError:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))


def is_stopped_by_person(run_dir: str) -> bool:
    """Return whether a user has stopped the run, whatever else ends it; no start follows then."""
    path = os.path.join(run_dir, STOP)
    return os.path.exists(path) and not (read_json(path) or {}).get("failed")


def read_stop_request(run_dir: str, default_s: float = STOP_GRACE_S) -> StopRequest:
    """Return the stop request that belongs to the SIGTERM which the supervisor has received.

    `default_s` is the grace when no client left a request: the host itself, or a scheduler, ends the run.
    """
    said = read_json(os.path.join(run_dir, STOP)) or {}
    grace = said.get("grace_s")
    cause = (PEER if said.get("failed") else REQUEST) if said else SIGNAL
    return StopRequest(
        str(said.get("why") or "asked to stop (SIGTERM)"),
        float(grace) if isinstance(grace, (int, float)) else default_s,
        HANG if said.get("stacks") else cause,
        requested=True,
        stacks=bool(said.get("stacks")),
    )
