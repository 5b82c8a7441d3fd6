"""State that all parts of a supervisor share: the plan, and the run's events and state file."""

import contextlib
import json
import os
import time
from typing import Any

from ..client_files import STOP_GRACE_S
from ..events import EventLog
from ..files import write_all, write_file
from ..node import read_node_location
from ..processes import read_start_ticks
from ..run_dir import STATE


def answer_start(done: int, answer: dict[str, Any]) -> None:
    """Give the first state, or why there is none, to the request that starts the run.

    Where that is gone, its client asks again: the run continues, and ends in time if no client comes.
    """
    with contextlib.suppress(OSError):
        write_all(done, json.dumps(answer).encode())


class SupervisedRun:
    """Plan, run directory, events and state of this node."""

    def __init__(self, spec: dict[str, Any], run_dir: str, guardian: int) -> None:
        self.spec = spec
        self.dir = run_dir
        self.guardian = guardian
        self.events = EventLog(run_dir)
        self.state: dict[str, Any] = {
            "run_id": spec["run_id"],
            **read_node_location(),
            "phase": "starting",
            "run_dir": run_dir,
            "supervisor": [os.getpid(), read_start_ticks(os.getpid())],
            "guardian": [guardian, read_start_ticks(guardian)],
            "launcher": None,
            "started": time.time(),
            "exit": None,
            "remaining_pids": [],
        }

    @property
    def grace_s(self) -> float:
        """Seconds between the stop of the run and SIGKILL."""
        return float(self.spec.get("grace_s", STOP_GRACE_S))

    def path(self, name: str) -> str:
        """Return the path of a file of the run directory."""
        return os.path.join(self.dir, name)

    def has(self, name: str) -> bool:
        """Return whether a file is in the run directory."""
        return os.path.exists(self.path(name))

    def emit(self, name: str, **fields: object) -> None:
        """Add an event."""
        self.events.write(name, **fields)

    def emit_failure(self, task: str, error: object) -> None:
        """Report a failure of a side task; the run continues."""
        self.emit("internal_error", what=task, error=str(error))

    def save(self, phase: str) -> None:
        """Write state.json."""
        self.state["phase"] = phase
        with contextlib.suppress(OSError):  # a full disk or a deleted directory must not end the run
            write_file(self.path(STATE), json.dumps(self.state))

    def end(self, how: dict[str, Any]) -> None:
        """Write the final state and the last event."""
        self.emit("ended", **how)
        self.state.update(exit=how, ended=time.time())
        self.save("ended")
