"""Scripts of runs that a client leaves, and their end."""

import time

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
    deadline = time.monotonic() + 20
    while home.phase(run) != "ended":
        assert time.monotonic() < deadline
        time.sleep(0.05)
