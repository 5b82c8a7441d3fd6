"""Scripts of runs that a client leaves, and their end."""

import time

from launcher.onhost.supervisor.run_dir import is_alive, read_state
from tests.launcher.run_plans import run_id
from tests.launcher.terminal import Home

LONG = """
import time
print("up", flush=True)
for n in range(9999):
    print("line", n, flush=True)
    time.sleep(0.1)
"""
RUN, OLD, OLDER, NEW, ALIVE, LOST = map(run_id, ("r-1", "old-1", "old-2", "new-1", "alive-1", "lost-1"))


def ended(home: Home, run: str = RUN) -> None:
    """Wait for the end of a run, and of its keepers, which may still write what a test changes."""
    deadline = time.monotonic() + 60
    while home.phase(run) != "ended" or is_alive(read_state(str(home.runs / run))):
        assert time.monotonic() < deadline
        time.sleep(0.05)
