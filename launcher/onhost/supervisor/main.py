"""What travels to a host to start, watch and end a node of a run: its door. Standard library, Python >= 3.9.

    start    make the run directory, start guardian and supervisor there, then follow
    follow   send the logs and events from given byte offsets on, until the run has ended
    stop     ask the supervisor to end the run, wait for it
    stacks   have every rank write down where it stands; the run continues
    status   print state.json and whether its supervisor lives
    list     print what runs of this user are here
    fetch    send the files of a run that the other side does not have yet
    remove   delete the directory of a run that is over

Behind it lies the rest of this folder: see its __init__. Each mode imports only what it needs:
all of it arrives as source, and to compile that takes longer than most of them.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any, Callable

from .protocol import read_message, request_of, run_handler, send_header
from .run_dir import find_run, is_alive, read_state


def main() -> int:
    """Answer the JSON document that follows this program on stdin."""
    return run_handler(lambda: serve(json.loads(request_of(read_message()))))


def serve(request: dict[str, Any]) -> int:
    """Carry out one request; return the exit code of the process at the client's end. Raises Refused."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at a local terminal is the client's to hear
    mode = request["mode"]
    if mode == "start":
        from .requests.start import start

        return start(request["spec"])
    if mode == "list":
        from .requests.list import list_runs

        send_header(list_runs(request))
        return 0
    return OF_ONE_RUN[mode](find_run(request["run_id"]), request)


def follow(run_dir: str, request: dict[str, Any]) -> int:
    """Send what it writes."""
    from .requests.follow import follow

    return follow(run_dir, request)


def fetch(run_dir: str, request: dict[str, Any]) -> int:
    """Send its files."""
    from .requests.fetch import fetch

    return fetch(run_dir, request)


def stacks(run_dir: str, request: dict[str, Any]) -> int:
    """Say where its ranks stand."""
    from .requests.stacks import stacks_of

    del request
    send_header({"stacks": stacks_of(run_dir), "t": time.time()})
    return 0


def stop(run_dir: str, request: dict[str, Any]) -> int:
    """End it."""
    from .requests.stop import stop_and_wait

    return say_state(stop_and_wait(run_dir, request))


def remove(run_dir: str, request: dict[str, Any]) -> int:
    """Delete its directory."""
    from .requests.remove import remove_run

    del request
    state = read_state(run_dir)
    remove_run(run_dir)
    return say_state(state)


def status(run_dir: str, request: dict[str, Any]) -> int:
    """Say how it stands."""
    del request
    return say_state(read_state(run_dir))


def say_state(state: dict[str, Any]) -> int:
    """Say how a run stands, or stood."""
    send_header({"state": state, "alive": is_alive(state), "t": time.time()})
    return 0


OF_ONE_RUN: dict[str, Callable[[str, dict[str, Any]], int]] = {
    "follow": follow,
    "fetch": fetch,
    "stacks": stacks,
    "stop": stop,
    "remove": remove,
    "status": status,
}


if __name__ == "__main__":
    sys.exit(main())
