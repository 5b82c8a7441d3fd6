"""Program that starts, watches and ends a node of a run on its host. Standard library, Python >= 3.9.

    start    make the run directory, start guardian and supervisor, then follow
    follow   send the logs and events from given byte offsets on, until the run has ended
    stop     request the supervisor to end the run, wait for it
    stacks   dump the stack of every rank; the run continues
    list     print the runs of this user on this host
    queue    hold a place among the clients that wait for GPUs of this host
    forward  carry connections to a port of this host's loopback
    restart  hold the lock on the next start of a run that has failed, for a client
    fetch    send the files of a run that the other side does not have yet
    remove   delete the directory of a run that is over

A mode is served by the module of this name in requests/. Only that one is imported: all of it arrives as
source, and compiling all modules takes longer than most requests.
"""

import json
import signal
import sys
from importlib import import_module
from typing import Any

from .protocol import REFUSED, RequestRefused, read_request, send_header
from .run_dir import find_run

OF_NO_RUN = ("start", "list", "queue")


def main() -> int:
    """Handle the request that follows this program on stdin; return the exit code of this process."""
    try:
        return serve(json.loads(read_request()))
    except RequestRefused as refusal:
        send_header({"refused": str(refusal), "fix": refusal.fix})
        return REFUSED


def serve(request: dict[str, Any]) -> int:
    """Handle one request; return the exit code. Raises RequestRefused."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles Ctrl-C of a local terminal
    mode = request["mode"]
    handler = import_module(".requests." + mode, __package__)
    if mode in OF_NO_RUN:
        return int(handler.serve(request))
    return int(handler.serve(find_run(request["run_id"], is_needed=mode != "remove"), request))


if __name__ == "__main__":
    sys.exit(main())
