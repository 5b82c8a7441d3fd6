"""Attached to a run that exists already: the view of `gpulaunch run`, until it ends or is left again."""

import json
import queue
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from launcher.follow.client_deadlines import StopDeadline
from launcher.follow.detach_policy import ACK_TIMEOUT_S
from launcher.follow.events import HostStarted, Interrupted, LogOutput, RunEvent
from launcher.follow.failure_diagnosis import add_diagnosis, add_last_lines
from launcher.follow.hang_stacks import add_stacks
from launcher.follow.node_client import LEAVE_S, QUEUE_LENGTH, NodeClient, ResumePoint
from launcher.follow.outcome import Outcome, build_outcome
from launcher.follow.rank_digests import is_digested
from launcher.follow.run_state import RunState
from launcher.follow.ticker import TickerQueue
from launcher.launch.reporter import RunReporter
from launcher.launch.signals import (
    CTRL_C,
    TERMINAL_CLOSED,
    InterruptChoice,
    SignalCounter,
    capture_signals,
    drop_terminal,
)
from launcher.local.safe_paths import path_below
from launcher.local.user import user_at_machine
from launcher.report.outcome import outcome_json
from launcher.rundir.layout import OUTCOME
from launcher.rundir.log_store import LogStore, run_directory
from launcher.runs.access import RunAccess
from launcher.runs.remote_run import RemoteRun
from launcher.terminal.screen import Screen

HISTORY_BYTES = 10 << 10
"""How much of each log that was written before is shown; the local file gets all of it."""


class AttachedRun:
    """Follows every node of a run from the bytes on that are kept locally."""

    def __init__(
        self,
        to: RunAccess,
        screen: Screen,
        *,
        logs: Path,
        run: RemoteRun,
        choose: Callable[[], InterruptChoice],
        all_ranks: bool = False,
    ) -> None:
        """`run`: as its hosts report it; one that is over is shown as it was."""
        plan = to.plan
        self._screen = screen
        self._choose = choose
        self._over = over = run.is_over
        self._needs_us = not run.slurm_job  # else it ends with the client that the job runs
        self._book = LogStore(run_directory(logs, plan.run_id), again=True)
        self._state = RunState(plan, grace_s=run.grace_s, over=over)
        digest = is_digested(plan, all_ranks=all_ranks)
        self._reporter = RunReporter(self._state, screen, self._book, over=over, digest=digest)
        self._hurry = StopDeadline(self._state)
        events: queue.Queue[RunEvent] = queue.Queue(QUEUE_LENGTH)
        self._ticking = TickerQueue(events)
        self._old: dict[tuple[str, str], int] = {}  # below this, bytes are not shown
        self._new: dict[tuple[str, str], int] = {}  # below this, bytes are history
        self._here = {node.host: self._book.sizes(node.host) for node in plan.nodes}
        self._followers = {
            node.host: NodeClient(
                plan.run_id,
                node,
                partial(to.open, entry),
                ResumePoint(self._here[node.host], {"digest": digest}),
                patience_s=float("inf"),  # it continues on the host whether or not we reach it
                events=events,
            )
            for node, entry in zip(plan.nodes, to.entries, strict=True)
        }

    def follow(self) -> Outcome | None:
        """Follow to the end; return how it ended, None when it was left and continues."""
        self._book.begin()
        with capture_signals() as interrupts:
            self._screen.heed(lambda: interrupts.waiting)
            for follower in self._followers.values():
                follower.start()
            left = self._loop(interrupts)
            self._screen.finish()
            self._reporter.tell_digests()
            self._screen.show_ends(self._book.last_lines)
        self._screen.heed(lambda: False)
        self._hurry.give_up_hosts()
        outcome = None if left else self._ended()
        self._book.close()
        return outcome

    def _loop(self, interrupts: SignalCounter) -> bool:
        """Return whether the run was left before it ended."""
        while not self._state.done and not self._hurry.leaves(time.monotonic()):
            if (by := interrupts.pop()) and self._interrupted(by):
                return True
            self._act(self._ticking.get())
        return False

    def _interrupted(self, by: str) -> bool:
        """Ask what Ctrl-C shall mean; return whether to leave. Raises KeyboardInterrupt for what is over."""
        if self._over:
            raise KeyboardInterrupt
        choice: InterruptChoice = "stop" if self._state.stopping else self._choice(by)
        if choice == "stop":
            self._act(Interrupted(by, user_at_machine()))
            self._screen.stop(at_once=self._hurry.pressed)
        if choice != "detach":
            return False
        if self._needs_us:
            self._release()
        for follower in self._followers.values():
            follower.close()
        give_up = time.monotonic() + LEAVE_S
        for follower in self._followers.values():
            follower.join(max(0.0, give_up - time.monotonic()))
        return True

    def _release(self) -> None:
        """Have the run continue without a client, and wait until its hosts have confirmed that."""
        for follower in self._followers.values():
            follower.detach()
        deadline = time.monotonic() + ACK_TIMEOUT_S
        while not self._state.done and not self._state.nodes.detached.issuperset(self._state.hosts):
            if time.monotonic() > deadline:
                silent = ", ".join(sorted(set(self._state.hosts) - self._state.nodes.detached))
                self._screen.notify(
                    f"{silent}: has not confirmed that the run continues without a client", bad=True
                )
                break
            self._act(self._ticking.get())

    def _choice(self, by: str) -> InterruptChoice:
        if by == CTRL_C:
            return self._choose()
        if by == TERMINAL_CLOSED:
            drop_terminal()
        return "detach"

    def _act(self, event: RunEvent) -> None:
        if isinstance(event, LogOutput):
            shown_from = self._old.get((event.host, event.log), 0)
            new_from = self._new.get((event.host, event.log), 0)
            self._reporter.output(event, shown_from=shown_from, new_from=new_from)
            return
        if isinstance(event, HostStarted):
            self._note_history(event.host, event.sizes)
        for stop in self._reporter.handle(event):
            self._screen.stop()
            for host in stop.hosts:
                self._followers[host].stop_run(stop.grace_s, stop.why, stacks=stop.stacks)

    def _note_history(self, host: str, sizes: Mapping[str, int]) -> None:
        for log, size in sizes.items():
            start = self._old[host, log] = max(0, size - HISTORY_BYTES)
            self._new[host, log] = size
            path, here = self._book.path(host, log), self._here[host].get(log, 0)
            if start < here:  # that part is not sent again
                with path.open("rb") as file:
                    file.seek(start)
                    self._screen.output(host, log, file.read(here - start), time.monotonic())

    def _ended(self) -> Outcome:
        """Return how it ended, and keep that with the logs where no client has before."""
        outcome = build_outcome(self._state, self._book.directory, self._duration(), 1)
        outcome = add_stacks(outcome, self._book)
        outcome = add_diagnosis(add_last_lines(outcome, self._book), self._book)
        outcome = self._reporter.with_measurements(outcome)
        if not path_below(self._book.directory, OUTCOME).exists():
            self._book.store(OUTCOME, json.dumps(outcome_json(outcome), indent=1) + "\n")
        outcome = replace(outcome, logs_incomplete=self._reporter.logs_incomplete)
        times = [ended.at for ended in self._state.nodes.ended.values() if ended.at is not None]
        self._book.add_event(outcome.verdict, bad=outcome.exit_code != 0, at=max(times, default=None))
        return outcome

    def _duration(self) -> float:
        """Return how long it ran, by its hosts' clocks: this client followed a part of it only."""
        times = [
            float(end) - float(begin)
            for ended in self._state.nodes.ended.values()
            if isinstance(begin := ended.state.get("started"), int | float)
            and isinstance(end := ended.state.get("ended"), int | float)
        ]
        return max(times, default=sum(phase.seconds for phase in self._reporter.phases.finish()))
