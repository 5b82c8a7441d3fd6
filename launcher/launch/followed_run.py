"""A run that this client follows, launched by it or another: its hosts, its logs and its screen."""

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from launcher.follow.client_deadlines import StopDeadline
from launcher.follow.events import Interrupted, RunEvent, Tick
from launcher.follow.node_client import QUEUE_LENGTH, NodeClient
from launcher.follow.outcome import Outcome, build_outcome
from launcher.follow.peer_check import PeerCheck
from launcher.follow.phases import Phase
from launcher.follow.run_state import RunState
from launcher.launch.reporter import RunReporter
from launcher.launch.signals import SignalCounter, capture_signals
from launcher.local.user import format_user_at_machine
from launcher.rundir.layout import read_kept_source
from launcher.rundir.log_store import LogStore
from launcher.terminal.screen import Screen

EVERY_S = 0.1
_CATCH_UP_S = 1.0


class TickerQueue:
    """Takes from the run's queue; many chatty hosts never leave it empty, and what waits must be judged."""

    def __init__(
        self, events: "queue.Queue[RunEvent]", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._events = events
        self._clock = clock
        self._ticked = clock()

    def get(self) -> RunEvent:
        """Return what happened next; a Tick where the last is EVERY_S ago, or nothing comes for so long."""
        if self._clock() - self._ticked < EVERY_S:
            try:
                return self._events.get(timeout=EVERY_S)
            except queue.Empty:
                pass
        self._ticked = self._clock()
        return Tick(time.time())


class FollowedRun:
    """What a launch and an attached client do alike with a run."""

    def __init__(
        self, state: RunState, screen: Screen, book: LogStore, *, over: bool = False, digest: bool = False
    ) -> None:
        """`over`, `digest`: as RunReporter has them."""
        self._state = state
        self._screen = screen
        self._book = book
        self._reporter = RunReporter(state, screen, book, over=over, digest=digest)
        self._stop_deadline = StopDeadline(state)
        self._events: queue.Queue[RunEvent] = queue.Queue(QUEUE_LENGTH)
        self._ticking = TickerQueue(self._events)
        self._followers: dict[str, NodeClient] = {}

    @contextmanager
    def _following(self) -> Iterator[SignalCounter]:
        """Follow all hosts within, with signals counted; then end what the screen shows."""
        with capture_signals() as interrupts:
            self._screen.hurry_when(lambda: interrupts.waiting, interrupts.pop)
            for follower in self._followers.values():
                follower.start()
            yield interrupts
            self._screen.finish()
            self._reporter.tell_digests()
            self._screen.show_ends(self._book.last_lines)
        self._screen.hurry_when(lambda: "")
        self._stop_deadline.give_up_hosts()

    def _handle_event(self, event: RunEvent) -> None:
        """Report an event, and stop the hosts that it says are to be stopped."""
        for stop in self._reporter.handle(event):
            for host in stop.hosts:
                self._followers[host].stop_run(stop.grace_s, stop.why, stacks=stop.stacks, failed=stop.failed)

    def _catch_up(self, act: Callable[[RunEvent], None]) -> None:
        """Take what came while a person was asked, before the run is stopped or left: it may have ended.

        It takes a second at most, and a terminal that nothing reads is not waited for.
        """
        self._screen.stop()
        deadline = time.monotonic() + _CATCH_UP_S
        with suppress(queue.Empty):
            while not self._state.done and time.monotonic() < deadline:
                act(self._events.get(timeout=EVERY_S))

    def _give_up_dead_hosts(self, peer_check: PeerCheck) -> None:
        """Wait no longer for silent hosts that have died by the word of the others."""
        nodes = self._state.nodes
        for host, why in peer_check.step(nodes.disconnected - nodes.ended.keys() - nodes.lost.keys()):
            self._followers[host].mark_lost(why)

    def _stop_run(self, by: str) -> None:
        """Stop the run for a signal; the second time at once."""
        self._handle_event(Interrupted(by, format_user_at_machine()))
        self._screen.stop(at_once=self._stop_deadline.pressed)

    def _detach_followers(self) -> None:
        for follower in self._followers.values():
            follower.detach()

    def _unconfirmed_hosts(self) -> str:
        """Return the hosts that have not confirmed that the run continues without a client."""
        return ", ".join(sorted(set(self._state.hosts) - self._state.nodes.detached))

    def _build_outcome(self, duration_s: float, attempt: int, earlier: tuple[Phase, ...] = ()) -> Outcome:
        """Return how it ended, with what its logs and measurements say."""
        outcome = build_outcome(self._state, self._book.directory, duration_s, attempt)
        outcome = self._reporter.with_measurements(outcome, earlier)
        if outcome.cause.failure is None:
            return outcome
        from launcher.follow.failure_diagnosis import add_diagnosis, add_last_lines, add_stacks  # noqa: PLC0415 - most end well

        outcome = add_stacks(outcome, self._book)
        outcome = add_diagnosis(add_last_lines(outcome, self._book), self._book)
        if outcome.cause.diagnosis is not None and (source := read_kept_source(self._book.directory)):
            from launcher.sync.left_out_diagnosis import name_left_out  # noqa: PLC0415 - as above

            starts = {node.host: node.cwd for node in outcome.plan.nodes}
            logins = {host: follower.login for host, follower in self._followers.items()}
            found = name_left_out(outcome.cause.diagnosis, source, starts, logins)
            outcome = replace(outcome, cause=replace(outcome.cause, diagnosis=found))
        return outcome
