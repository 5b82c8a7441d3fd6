"""One launch of one plan: every node is started and followed to the end. One queue, one loop."""

import json
import queue
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from launcher.config.disconnect_options import CtrlC, describe_disconnect
from launcher.config.inventory import HostEntry
from launcher.exit_codes import ExitCode
from launcher.follow import protocol
from launcher.follow.awake_clock import AwakeClock
from launcher.follow.client_deadlines import ClientTimeout, leave_hosts
from launcher.follow.detach_policy import DetachPolicy, DetachPromise
from launcher.follow.events import JobEnds, LogOutput, RunEvent, Tick
from launcher.follow.failures import is_port_conflict
from launcher.follow.node_client import POLL_S, NodeClient
from launcher.follow.outcome import Outcome
from launcher.follow.peer_check import PeerAddress, PeerCheck
from launcher.follow.rank_digests import is_digested
from launcher.follow.run_state import FAILURE_GRACE_S, RunState
from launcher.launch import signals
from launcher.launch.followed_run import FollowedRun
from launcher.launch.request import LaunchRequest
from launcher.launch.resume_watch import ResumeWatch
from launcher.planning.plan import NodePlan, Plan
from launcher.planning.run_record import build_run_record, save_run_record
from launcher.remote.reachability import probe_targets
from launcher.report.outcome import encode_outcome, render_launch
from launcher.report.plan import encode_plan
from launcher.rundir.layout import OUTCOME, PLAN
from launcher.rundir.log_store import LogStore, run_directory
from launcher.terminal.hangup import drop_terminal, is_terminal_closed
from launcher.terminal.output import echo
from launcher.terminal.screen import Screen
from launcher.text import spell_duration

_MOST_POLLS_EACH_S = 2000
_LONGEST_POLL_S = 1.0
_CTRL_C: dict[object, CtrlC] = {
    None: "stops the run",
    signals.choose_stop: "stops the run",
    signals.choose_detach: "leaves the run, which continues",
}
_JOB_ANSWER_S = 10.0  # for Slurm to answer what a signal to the step means, where ranks have ended


class Attempt(FollowedRun):
    """One launch of one plan."""

    def __init__(
        self,
        launch: LaunchRequest,
        plan: Plan,
        screen: Screen,
        *,
        number: int = 1,
        targets: Mapping[str, PeerAddress] | None = None,
    ) -> None:
        """`targets`: addresses of hosts for each other, by which they check whether a silent one lives."""
        disconnect = launch.follow.disconnect
        state = RunState(
            plan,
            grace_s=disconnect.stop_s,
            stop_text=disconnect.stop_text,
            after_main_s=disconnect.after_main_s,
        )
        self._digest = is_digested(plan, all_ranks=launch.follow.all_ranks)
        book = LogStore(run_directory(launch.follow.logs, plan.run_id))
        super().__init__(state, screen, book, digest=self._digest)
        self._reporter.resume = ResumeWatch(launch.resume_step)
        self._number = number
        self._launch = launch
        self._plan = plan
        departure = DetachPolicy(state, time.monotonic(), quiet_s=launch.follow.quiet_s)
        self._departure = departure if launch.follow.detach else None
        self._promise = DetachPromise(state) if disconnect.continues else None
        self._left = False
        self._left_by = ""
        self._job_heard = False
        self._terminal_closed = False
        self._awake = AwakeClock()
        self._silence = ClientTimeout(state, disconnect.timeout_s, self._awake)
        self._peer_check = PeerCheck(targets or {}, self._probe_peers)
        self._peer_check_started = False
        self._requests = protocol.StartRequests(
            plan, disconnect, launch.entries, launch.restart, digest=self._digest
        )
        self._followers = {
            node.host: self._follower(node, entry)
            for node, entry in zip(plan.nodes, launch.entries, strict=True)
        }

    def _follower(self, node: NodePlan, entry: HostEntry) -> NodeClient:
        launch, plan = self._launch, self._plan
        client = NodeClient(
            plan.run_id,
            node,
            partial(launch.connections.acquire, entry),
            partial(self._requests.build_request, node),
            patience_s=float("inf")
            if launch.follow.disconnect.continues
            else launch.follow.disconnect.timeout_s + FAILURE_GRACE_S,
            events=self._events,
            awake=self._awake,
        )
        client.offsets.add_cut = partial(self._book.add_cut, node.host)
        client.options = {"digest": self._digest}
        # a thousand threads that wake ten times a second keep half a core busy while nothing happens
        client.poll_s = min(_LONGEST_POLL_S, max(POLL_S, len(plan.nodes) / _MOST_POLLS_EACH_S))
        return client

    def start_and_follow(self) -> Outcome:
        """Start every node at once, follow them, return how it ended."""
        started = time.monotonic()
        self._book.begin()
        follow = self._launch.follow
        plan = {**encode_plan(self._plan), "slurm_job": follow.disconnect.slurm_job}
        self._book.store(PLAN, json.dumps(plan, indent=1) + "\n")
        for name, text in self._launch.extra_files:
            self._book.store(name, text)
        # No client reaches those nodes once the job is over.
        if follow.keeps_record and not follow.disconnect.slurm_job:
            entries, named = self._launch.entries, self._launch.identity_file
            keys = {entry.name: named or entry.identity_file for entry in entries}
            save_run_record(build_run_record(self._plan, self._plan.nodes[0], entries), keys)
            if follow.on_start is not None:
                follow.on_start(self._plan.run_id)
        self._book.add_event("started")
        with self._following() as interrupts:  # its signals are answers, not a silent end
            try:
                for line in (*render_launch(self._plan, str(self._book.directory)), self._disconnect_words()):
                    self._screen.notify(line)
                self._loop(interrupts)
            except BaseException:
                self._abandon()
                raise
            self._hear_of_job(_JOB_ANSWER_S)
            self._act(Tick(time.time()))
        seconds, earlier = time.monotonic() - started, self._launch.earlier_phases
        outcome = self._build_outcome(seconds, self._number, earlier)
        if self._left:
            code = ExitCode.TERMINAL_CLOSED if self._left_by == signals.TERMINAL_CLOSED else 0
            outcome = replace(outcome, verdict="detached", exit_code=code)
        else:
            self._book.store(OUTCOME, json.dumps(encode_outcome(outcome), indent=1) + "\n")
        job = self._launch.follow.disconnect.slurm_job
        outcome = replace(outcome, logs_incomplete=self._reporter.logs_incomplete, slurm_job=job)
        self._book.add_event(outcome.verdict, bad=outcome.exit_code != 0)
        self._book.close()
        return outcome

    def port_was_taken(self, outcome: Outcome) -> bool:
        """Return whether it failed before its ranks met, because another process had taken the main port."""
        if outcome.verdict != "failed" or outcome.verification.devices_verified or self._plan.world_size == 1:
            return False
        main = self._plan.nodes[0].host
        cause = outcome.cause.failure
        lines = list(self._book.last_lines(main, "launcher.log", 200))
        lines += self._book.last_lines(main, "rank-0.log", 200)
        return is_port_conflict([*lines, *(cause.last_lines if cause else ())])

    def _loop(self, interrupts: signals.SignalCounter) -> None:
        is_asked = self._launch.follow.choose not in _CTRL_C
        while not self._state.done and not self._left and not self._stop_deadline.leaves(time.monotonic()):
            try:
                if by := interrupts.pop(asks=is_asked):
                    self._interrupted(by, asks=not interrupts.waiting)
                self._hear_of_job()
                event = self._ticking.get()
                self._act(event)
                if isinstance(event, Tick):
                    self._look_at_all_hosts()
            except OSError as error:
                if self._terminal_closed or not is_terminal_closed(error):
                    raise
                self._interrupted(signals.TERMINAL_CLOSED, asks=False)

    def _hear_of_job(self, timeout_s: float = 0.0) -> None:
        """Stop the run where Slurm has announced the end of its job."""
        notice = self._launch.job_notice
        if notice is None or self._job_heard:
            return
        end = notice.read(timeout_s)
        if end is not None:
            self._job_heard = True
            self._act(JobEnds(end.why, notice.heard_at))

    def _look_at_all_hosts(self) -> None:
        """Do what looks at every host: ten times a second, however many events of however many hosts come."""
        self._check_silent_hosts()
        if asleep := self._awake.pop_sleep():
            self._screen.notify(
                f"this client was asleep or stopped for {spell_duration(asleep)}; looking again"
            )
        if self._promise is not None and self._promise.is_due(time.monotonic()):
            self._detach_followers()
        self._leave_if_due()

    def _interrupted(self, by: str, *, asks: bool) -> None:
        """Do what a signal asks for: a person at a terminal is asked, a closed terminal ends no run.

        `asks` is false where the next one waits already: who is in a hurry is not asked.
        """
        if by == signals.TERMINAL_CLOSED and self._terminal_closed:
            return  # noticed by a write before the signal came
        if by == signals.TERMINAL_CLOSED:
            self._terminal_closed = True
            drop_terminal()
        choice = self._choice(by, asks=asks)
        if by == signals.CTRL_C:
            self._awake.pop_sleep()  # a question is not sleep
        if by == signals.CTRL_C and choice != "stay" and not self._state.stopping:
            self._catch_up(self._act)
        if self._state.done:
            return
        if choice == "stop":
            self._stop_run(by)
        elif choice == "detach":
            self._left_by = by
            self._departure = DetachPolicy(self._state, time.monotonic(), at_once=True)

    def _choice(self, by: str, *, asks: bool) -> signals.InterruptChoice:
        follow = self._launch.follow
        if by == signals.TERMINAL_CLOSED:
            return "detach" if follow.disconnect.continues else "stop"
        if self._state.stopping:
            return "stop"
        if by != signals.CTRL_C:
            return follow.unasked
        if follow.choose is None:
            return "stop"
        return follow.choose() if asks or follow.choose in _CTRL_C else follow.unasked

    def _check_silent_hosts(self) -> None:
        """Give up hosts that have died, by the word of the others, and all of them once none answers us."""
        if self._launch.follow.disconnect.continues and self._silence.is_over():
            for host in self._state.nodes.open_hosts:
                self._followers[host].mark_lost("", still_running=True)
        if not self._peer_check_started:
            if len(self._state.nodes.run_dirs) == len(self._state.hosts):
                self._peer_check_started = True
                self._peer_check.start()
                if self._launch.on_started is not None:
                    self._launch.on_started(self._plan.run_id)
            return
        self._give_up_dead_hosts(self._peer_check)

    def _probe_peers(self, asker: str, targets: tuple[PeerAddress, ...]) -> tuple[bool, ...]:
        entry = next(entry for entry in self._launch.entries if entry.name == asker)
        with self._launch.connections.borrow(entry) as connection:
            return probe_targets(connection, entry.python, targets)

    def _leave_if_due(self) -> None:
        """Leave a detached run that continues without us; take the steps that lead to that."""
        step = self._departure.step(time.monotonic()) if self._departure is not None else "wait"
        if step == "detach":
            self._detach_followers()
        if step == "leave":
            if silent := self._unconfirmed_hosts():
                limit = f"{self._launch.follow.disconnect.host_timeout_s:g} s"
                words = (
                    f"has not confirmed that the run continues without a client; its part ends after {limit}"
                )
                self._screen.notify(f"{silent}: {words} unless a client attaches", bad=True)
            self._leave()

    def _leave(self) -> None:
        self._left = True
        leave_hosts(self._followers.values())

    def _disconnect_words(self) -> str:
        remote = not all(entry.is_local for entry in self._launch.entries)
        follow = self._launch.follow
        ctrl_c = _CTRL_C.get(follow.choose, "asks: stop, detach or stay")
        return describe_disconnect(follow.disconnect, self._plan.run_id, ctrl_c=ctrl_c, remote=remote)

    def _act(self, event: RunEvent) -> None:
        if isinstance(event, LogOutput):
            self._reporter.output(event)
            return
        self._handle_event(event)

    def _abandon(self) -> None:
        """Leave the run, or end it everywhere: our side has failed (its disk, its terminal)."""
        if self._state.nodes.detached.issuperset(self._state.hosts) and not self._state.stopping:
            with suppress(OSError):  # the screen may be what failed
                echo(f"the run continues: gpulaunch attach {self._plan.run_id}", err=True)
            self._leave()
            return
        for follower in self._followers.values():
            follower.stop_run(FAILURE_GRACE_S, "the client failed")
        deadline = time.monotonic() + FAILURE_GRACE_S + 5.0
        while not self._state.done and time.monotonic() < deadline:
            try:
                for _ in self._state.handle(self._events.get(timeout=POLL_S)):
                    pass
            except queue.Empty:
                continue
