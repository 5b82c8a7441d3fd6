"""stacks: dump the stack of every rank; the run continues."""

import contextlib
import os
import subprocess
import sys
import time
from typing import Any

from ..files import explain_full_disk
from ..protocol import RequestRefused, send_header
from ..run_dir import STACKS, is_alive, log_sizes, read_state

SENT = 1 << 20  # bytes of one rank's log
WAIT_S = 60.0


def serve(run_dir: str, _request: dict[str, Any]) -> int:
    """Send the stack of every rank. Raises RequestRefused."""
    send_header({"stacks": dump_stacks(run_dir), "t": time.time()})
    return 0


def dump_stacks(run_dir: str) -> dict[str, str]:
    """Dump the stacks; return what is new in each rank's stack log, by name. Raises RequestRefused."""
    source = os.path.join(run_dir, STACKS)
    if not is_alive(read_state(run_dir)):
        raise RequestRefused("%s does not run on this host any more" % os.path.basename(run_dir))
    if not os.path.exists(source):
        raise RequestRefused(
            "%s was started by a gpulaunch that could not ask this" % os.path.basename(run_dir)
        )
    if full := explain_full_disk(run_dir):
        raise RequestRefused("stacks cannot be written: %s" % full)
    before = log_sizes(run_dir)
    argv = [sys.executable, "-ISE", source, run_dir]
    with contextlib.suppress(subprocess.TimeoutExpired):
        null = subprocess.DEVNULL
        subprocess.run(argv, stdin=null, stdout=null, stderr=null, timeout=WAIT_S, check=False)
    found = {}
    for name in log_sizes(run_dir):
        if name.startswith("stacks-"):
            with open(os.path.join(run_dir, name), "rb") as file:
                file.seek(before.get(name, 0))
                found[name] = file.read(SENT).decode("utf-8", "replace")
    return found
