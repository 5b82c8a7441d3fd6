"""stop: request the supervisor to end the run, and wait for it; kill one that does not."""

import os
import time
from typing import Any

from ..client_files import END_S, STOP_GRACE_S, StopRequest, kill_supervisor, request_stop
from ..next_start import read_next, stop_keeper
from ..protocol import send_header
from ..run_dir import describe_stall, is_alive, read_state
from ..run_processes import KILL_WAIT_S, find_run_processes


def serve(run_dir: str, request: dict[str, Any]) -> int:
    """Stop a run and send its last state."""
    unwritable = is_alive(read_state(run_dir)) and not os.access(run_dir, os.W_OK)
    state = stop_and_wait(run_dir, request)
    stall = describe_stall(run_dir, state)
    said = {"state": state, "alive": is_alive(state), "stall": stall, "next": read_next(run_dir)}
    send_header({**said, "unwritable": unwritable, "t": time.time()})
    return 0


def stop_and_wait(run_dir: str, request: dict[str, Any]) -> dict[str, Any]:
    """Request the end and wait for it; return the last state."""
    grace_s = float(request.get("grace_s", STOP_GRACE_S))
    why, failed = str(request.get("why") or "asked to stop"), bool(request.get("failed"))
    lived, spared_s = is_alive(read_state(run_dir)), KILL_WAIT_S + END_S
    if not os.access(run_dir, os.W_OK):  # read-only: the supervisor takes its own grace, maybe longer
        spared_s = 0.0
    if not request_stop(run_dir, StopRequest(why, grace_s, failed=failed)) and not failed:
        stop_keeper(run_dir, why)
    if not _await_end(run_dir, grace_s + spared_s):
        kill_supervisor(run_dir)
        _await_end(run_dir, KILL_WAIT_S + 5.0)
    if not failed:
        stop_keeper(run_dir, why)  # it failed while it was asked
    state = read_state(run_dir)
    if lived and state.get("phase") != "ended" and not is_alive(state):  # it could not write its end
        left = sorted(find_run_processes(run_dir, {os.getpid()}))
        unknown: dict[str, Any] = {"launcher_code": None, "ranks": {}, "port_free": None}
        state.update(phase="ended", exit={**unknown, "remaining_pids": left, "why": why})
    return state


def _await_end(run_dir: str, timeout_s: float) -> bool:
    """Return whether nothing minds the run any more within a time."""
    give_up = time.monotonic() + timeout_s
    while time.monotonic() < give_up:
        state = read_state(run_dir)
        if state.get("phase") == "ended" or not is_alive(state):
            return True
        time.sleep(0.05)
    return False
