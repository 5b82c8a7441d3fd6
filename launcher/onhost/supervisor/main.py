"""Program that starts, watches and ends a node of a run on its host. Standard library, Python >= 3.9.

    start    make the run directory, start guardian and supervisor, then follow
    follow   send the logs and events from given byte offsets on, until the run has ended
    stop     request the supervisor to end the run, wait for it
    stacks   dump the stack of every rank; the run continues
    status   print state.json and whether its supervisor lives
    list     print the runs of this user on this host
    queue    hold a place among the clients that wait for GPUs of this host
    forward  carry connections to a port of this host's loopback
    restart  hold the lock on the next start of a run that has failed, for a client
    fetch    send the files of a run that the other side does not have yet
    remove   delete the directory of a run that is over

The package docstring describes the other modules. Each mode imports only the modules it needs:
all of it arrives as source, and compiling all modules takes longer than most requests.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from typing import Any, Callable

from .protocol import REFUSED, RequestRefused, read_request, send_header
from .run_dir import find_run, is_alive, read_state


def main() -> int:
    """Handle the request that follows this program on stdin; return the exit code of this process."""
    try:
        return serve(json.loads(read_request()))
    except RequestRefused as refusal:
        send_header({"refused": str(refusal)})
        return REFUSED


def serve(request: dict[str, Any]) -> int:
    """Handle one request; return the exit code. Raises RequestRefused."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles Ctrl-C of a local terminal
    mode = request["mode"]
    if mode == "start":
        from .requests.start import start

        return start(request["spec"])
    if mode == "list":
        from .requests.list import list_runs

        send_header(list_runs(request))
        return 0
    if mode == "queue":
        from .requests.queue import queue

        return queue(request)
    return OF_ONE_RUN[mode](find_run(request["run_id"]), request)


def follow(run_dir: str, request: dict[str, Any]) -> int:
    """Send the output of a run."""
    from .requests.follow import follow

    return follow(run_dir, request)


def fetch(run_dir: str, request: dict[str, Any]) -> int:
    """Send the files of a run."""
    from .requests.fetch import fetch

    return fetch(run_dir, request)


def forward(run_dir: str, request: dict[str, Any]) -> int:
    """Carry connections to a port of this host."""
    from .requests.forward import forward

    return forward(run_dir, request)


def stacks(run_dir: str, request: dict[str, Any]) -> int:
    """Send the stack of every rank."""
    from .requests.stacks import stacks_of

    del request
    send_header({"stacks": stacks_of(run_dir), "t": time.time()})
    return 0


def restart(run_dir: str, request: dict[str, Any]) -> int:
    """Hold the lock on the next start."""
    from .requests.restart import restart

    return restart(run_dir, request)


def stop(run_dir: str, request: dict[str, Any]) -> int:
    """Stop a run."""
    from .requests.stop import stop_and_wait

    return say_state(stop_and_wait(run_dir, request))


def remove(run_dir: str, request: dict[str, Any]) -> int:
    """Delete the directory of a run."""
    from .requests.remove import remove_run

    del request
    state = read_state(run_dir)
    remove_run(run_dir)
    return say_state(state)


def status(run_dir: str, request: dict[str, Any]) -> int:
    """Send the state of a run."""
    del request
    return say_state(read_state(run_dir))


def say_state(state: dict[str, Any]) -> int:
    """Send the current or final state of a run."""
    send_header({"state": state, "alive": is_alive(state), "t": time.time()})
    return 0


OF_ONE_RUN: dict[str, Callable[[str, dict[str, Any]], int]] = {
    "follow": follow,
    "fetch": fetch,
    "forward": forward,
    "stacks": stacks,
    "restart": restart,
    "stop": stop,
    "remove": remove,
    "status": status,
}


if __name__ == "__main__":
    sys.exit(main())
