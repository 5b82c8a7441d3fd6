"""stop: request the supervisor to end the run, and wait for it."""

import time
from typing import Any

from ..client_files import STOP_GRACE_S, StopRequest, request_stop
from ..next_start import stop_keeper
from ..protocol import send_header
from ..run_dir import is_alive, read_state
from ..run_processes import KILL_WAIT_S


def serve(run_dir: str, request: dict[str, Any]) -> int:
    """Stop a run and send its last state."""
    state = stop_and_wait(run_dir, request)
    send_header({"state": state, "alive": is_alive(state), "t": time.time()})
    return 0


def stop_and_wait(run_dir: str, request: dict[str, Any]) -> dict[str, Any]:
    """Request the end and wait for it; return the last state."""
    grace_s = float(request.get("grace_s", STOP_GRACE_S))
    why = str(request.get("why") or "asked to stop")
    if not request_stop(run_dir, StopRequest(why, grace_s)):
        stop_keeper(run_dir, why)
    give_up = time.monotonic() + grace_s + KILL_WAIT_S + 5.0
    while time.monotonic() < give_up:
        state = read_state(run_dir)
        if state.get("phase") == "ended" or not is_alive(state):
            break
        time.sleep(0.05)
    stop_keeper(run_dir, why)  # it failed while it was asked
    return read_state(run_dir)
