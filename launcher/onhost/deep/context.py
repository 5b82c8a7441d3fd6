"""Position of this rank, the report of what it measures, and the deadline of each step."""

import os
import sys
import threading
import time
from typing import Any, Callable

from ..event_file import EVENTS, append_event

Announce = Callable[[str, float], None]  # a step, and how long it may take
STACK_FRAMES = 20
REPORT_SETTLE_S = 2.0  # for the watchdogs of the other ranks to report first
STOP_WAIT_S = 120.0  # the client collects stacks, then stops the run; without one the rank ends itself
POLL_S = 0.2
HUNG_EXIT = 124


class RankPlace:
    """Position of this rank in the world, from the variables that torch's launcher sets."""

    def __init__(self) -> None:
        env = os.environ
        self.rank = int(env["RANK"])
        self.world = int(env["WORLD_SIZE"])
        self.local_rank = int(env["LOCAL_RANK"])
        self.local_world = int(env["LOCAL_WORLD_SIZE"])
        self.node = int(env.get("GROUP_RANK", "0"))


class GlooGroup:
    """A group of ranks that wait for each other and exchange values, over gloo."""

    def __init__(self, dist: Any, group: Any, size: int) -> None:
        self._dist, self._group, self._size = dist, group, size

    def barrier(self) -> None:
        """Wait until every rank of the group has come as far."""
        self._dist.barrier(group=self._group)

    def gather(self, mine: Any) -> list[Any]:
        """Return what every rank of the group gives."""
        everyone: list[Any] = [None] * self._size
        self._dist.all_gather_object(everyone, mine, group=self._group)
        return everyone


class Reporter:
    """Appends one line per report to events.jsonl of the run directory, each in one write."""

    def __init__(self, run_dir: str, rank: int) -> None:
        self._path = os.path.join(run_dir, EVENTS)
        self._rank = rank

    def report(self, kind: str, step: str, **fields: object) -> None:
        """Report the start, the result or the hang of a step."""
        append_event(self._path, "deep", rank=self._rank, kind=kind, step=step, **fields)

    def report_hang(self, why: str) -> None:
        """Have the run ended as one that hangs: the stacks of all ranks are collected first."""
        append_event(self._path, "hung", rank=self._rank, why=why)


class StepWatchdog:
    """A thread that reports a step which misses its deadline, with the stack of the main thread.

    A rank that is stopped or whose interpreter is blocked reports nothing by this thread: `announce` passes
    the deadlines on to a process that then does it.
    """

    def __init__(self, reporter: Reporter, timeout_s: float, announce: Announce) -> None:
        self._reporter = reporter
        self._announce = announce
        self._timeout_s = timeout_s
        self._main = threading.get_ident()
        self._step = ""
        self._until = float("inf")
        self.waiting = False  # in the barrier after the step: the rank's own part is done
        threading.Thread(target=self._watch, name="deadline", daemon=True).start()

    def begin(self, step: str, seconds: float) -> None:
        """Start the deadline of a step that is to take `seconds`."""
        self.waiting = False
        self._step = step
        self._until = time.monotonic() + seconds + self._timeout_s
        self._announce(step, seconds + self._timeout_s)

    def end(self) -> None:
        """Stop the deadline."""
        self._until = float("inf")
        self._announce(self._step, float("inf"))

    def _watch(self) -> None:
        while time.monotonic() < self._until:
            time.sleep(POLL_S)
        step, waiting = self._step, self.waiting
        self._announce(step, float("inf"))
        self._reporter.report("stuck", step, waiting=waiting, stack=self._stack())
        time.sleep(REPORT_SETTLE_S)
        self._reporter.report_hang("hung: the step %s of the deep checks missed its deadline" % step)
        time.sleep(STOP_WAIT_S)
        os._exit(HUNG_EXIT)

    def _stack(self) -> list[str]:
        """Return the frames of the main thread, innermost first, without their source."""
        frame = sys._current_frames().get(self._main)  # noqa: SLF001 - documented, in spite of its name
        found: list[str] = []
        while frame is not None and len(found) < STACK_FRAMES:
            code = frame.f_code
            found.append("%s (%s:%d)" % (code.co_name, os.path.basename(code.co_filename), frame.f_lineno))
            frame = frame.f_back
        return found
