"""Position of this rank in the run, and its event reports."""

import contextlib
import json
import os
from typing import Callable

from ..event_file import EVENTS, append_event

TEXT_LIMIT = 4000

Report = Callable[..., None]


def run_safely(task: str, report: Report, action: Callable[[], object]) -> None:
    """Run one of our own actions; its failure is reported and never reaches the script."""
    try:
        action()
    except Exception as error:
        with contextlib.suppress(Exception):
            report("internal_error", what=task, error=repr(error)[:TEXT_LIMIT])


class RankContext:
    """Position of this rank in the run, read from the launcher's environment and expected.json."""

    def __init__(self, run_dir: str) -> None:
        self.run_dir = run_dir
        self.pid = os.getpid()
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        try:
            with open(os.path.join(run_dir, "expected.json"), "rb") as file:
                expected = json.loads(file.read())
                first, size = int(expected.get("first_rank", 0)), int(expected.get("world_size", 1))
        except (OSError, ValueError, AttributeError):
            first, size = 0, 1
        self.world_size = int(os.environ.get("WORLD_SIZE", str(size)))
        self.rank = int(os.environ.get("RANK", str(first + self.local_rank)))
        self.events = os.path.join(run_dir, EVENTS)

    def report(self, event: str, **fields: object) -> None:
        """Append one line to events.jsonl in one write; forked children of the rank write nothing."""
        if os.getpid() != self.pid:
            return
        append_event(self.events, event, rank=self.rank, **fields)
