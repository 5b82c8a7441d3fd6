"""`gpulaunch run`: preflight, plan, start every node, follow all of them to the end. One queue, one loop."""

import json
import queue
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

from launcher.asked import DEFAULT_GRACE_S, new_run_id
from launcher.errors import LaunchRefused
from launcher.inventory import HostEntry
from launcher.network_choice import choose_main_address
from launcher.outcome import OUTCOME, Outcome, outcome_of
from launcher.plan import NodePlan, Plan
from launcher.planning import Sent, make_plan
from launcher.preflighting import Manner, PreflightResult, preflight, script_on
from launcher.reach import Begin, probe_reach, which_answer
from launcher.report.plan import plan_json
from launcher.report.run import launch_lines, outcome_json
from launcher.running import protocol
from launcher.running.connections import Connections
from launcher.running.departure import QUIET_S, Departure
from launcher.running.early import EarlyStarts
from launcher.running.failures import says_port_taken
from launcher.running.happenings import Happening, Interrupted, Output, Tick
from launcher.running.logbook import LogBook
from launcher.running.node import Follower
from launcher.running.phases import Phase
from launcher.running.reasons import with_last_lines, with_reasons
from launcher.running.stands import with_stacks
from launcher.running.ticking import Ticking
from launcher.running.vigil import Target, Vigil
from launcher.running.watch import FAILURE_GRACE_S, Watch
from launcher.runs.finding import remember
from launcher.runs.record import launch_record
from launcher.telling import Telling
from launcher.terminal.screen import Screen
from launcher.transports.base import Connection
from preflight.facts import HostFacts, Reach
from preflight.finding import stops_launch
from preflight.job import Job
from preflight.records import dataclass
from preflight.script.reading import ScriptReading

PORT_ATTEMPTS = 3
SSH_PORT = 22
QUEUE_LENGTH = 16
"""Happenings that wait for the loop; a slow terminal then slows the reading, and memory stays flat."""
LEAVE_S = 5.0
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Launch:
    """What is to be launched, and how it is watched."""

    entries: tuple[HostEntry, ...]
    job: Job
    connections: Connections
    sent: Sent | None = None
    arriving: Sent | None = None  # dry run: the script as a sync would bring it
    ignore: frozenset[str] = frozenset()
    grace_s: float = DEFAULT_GRACE_S
    logs: Path = Path("gpulaunch-runs")
    width: int = 64
    detach: bool = False  # leave the run once its ranks are as planned
    quiet_s: float = QUIET_S  # how long ranks that set up no world are waited for before that
    early: EarlyStarts | None = None  # nodes that have begun already
    kept: tuple[tuple[str, str], ...] = ()  # (name, text) kept with the run, here and on every host
    before: tuple[Phase, ...] = ()  # what has taken time already

    def probe(
        self, order: Sequence[HostEntry], facts: Mapping[str, HostFacts], port: int, begin: Begin
    ) -> tuple[Reach, ...]:
        """Let every node connect to the main one, where the launch would meet."""
        address, _ = choose_main_address([(entry, facts[entry.name]) for entry in order])
        return probe_reach(order[0], order[1:], begin, address=address, port=port, width=self.width)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A preflight, and all that a plan needs."""

    launch: Launch
    result: PreflightResult
    script: ScriptReading | None

    def plan(self, avoid_ports: frozenset[int] = frozenset()) -> Plan:
        """Return a plan of its own name. Raises LaunchRefused and the refusals of planning."""
        hosts = [(entry, self.result.facts[entry.name]) for entry in self.launch.entries]
        early = self.launch.early
        plan = make_plan(
            hosts,
            self.launch.job,
            run_id=early.run_id if early and not avoid_ports else new_run_id(self.launch.job.name),
            script=self.script,
            sent=self.launch.sent,
            findings=self.result.findings,
            avoid_ports=avoid_ports,
        )
        nodes = (replace(node, files=(*node.files, *self.launch.kept)) for node in plan.nodes)
        return replace(plan, nodes=tuple(nodes))

    def targets(self) -> dict[str, Target]:
        """Return where the others would meet each host; one that lives answers there, or refuses."""
        hosts = [(entry, self.result.facts[entry.name]) for entry in self.launch.entries]
        found: dict[str, Target] = {}
        for entry, facts in hosts:
            others = [each for each in hosts if each[0] is not entry]
            with suppress(LaunchRefused):
                address, _ = choose_main_address([(entry, facts), *others])
                found[entry.name] = address, entry.port or SSH_PORT
        return found

    def refusal(self) -> LaunchRefused | None:
        """Return why the launch may not happen, None when it may."""
        stopping = [finding for finding in self.result.findings if stops_launch(finding)]
        if not stopping:
            return None
        codes = ",".join(dict.fromkeys(finding.code for finding in stopping))
        return LaunchRefused(
            f"nothing was started: preflight found what stops this launch ({codes})",
            f"fix it, or launch in spite of it with --ignore {codes}",
        )

    def demand(self) -> None:
        """Raise LaunchRefused when findings stop the launch."""
        refusal = self.refusal()
        if refusal is not None:
            raise refusal


def check(launch: Launch, on_result: Callable[[PreflightResult], None]) -> Prepared:
    """Preflight the hosts. Raises the HostError of one that cannot be used, or LaunchRefused."""
    prepared = ask(launch, on_result)
    prepared.demand()
    return prepared


def ask(launch: Launch, on_result: Callable[[PreflightResult], None]) -> Prepared:
    """Preflight the hosts, whatever is found. Raises the HostError of one that cannot be used."""
    result = examine(launch)
    on_result(result)
    for error in result.errors.values():
        raise error
    return Prepared(launch, result, script_on(result.facts[launch.entries[0].name], launch.job))


def examine(launch: Launch) -> PreflightResult:
    """Preflight the hosts; what cannot be used is among the findings and errors."""
    manner = Manner(ignore=launch.ignore, width=launch.width, sent=launch.sent, arriving=launch.arriving)
    return preflight(launch.entries, launch.job, launch.connections.borrow, manner=manner, probe=launch.probe)


def carry_out(
    prepared: Prepared, screen: Screen, given_up: Callable[[Outcome], object] | None = None
) -> Outcome:
    """Launch and follow to the end; on a port that somebody took meanwhile, again on another one.

    `given_up` takes the outcome of each attempt that another one follows: its ranks may have left something.
    """
    avoid: frozenset[int] = frozenset()
    attempt = 1
    launch = prepared.launch
    while True:
        plan = prepared.plan(avoid)
        attempted = Attempt(launch, plan, screen, number=attempt, targets=prepared.targets())
        outcome = attempted.run()
        if attempt == PORT_ATTEMPTS or not attempted.port_was_taken(outcome):
            return outcome
        if given_up is not None:
            given_up(outcome)
        attempt += 1
        avoid |= {plan.main_port}
        launch = replace(launch, before=(*launch.before, Phase(f"attempt {attempt - 1}", outcome.seconds)))
        screen.say(
            f"port {plan.main_port} was taken by somebody else; starting again on another one", bad=True
        )


class Attempt:
    """One launch of one plan."""

    def __init__(
        self,
        launch: Launch,
        plan: Plan,
        screen: Screen,
        *,
        number: int = 1,
        targets: Mapping[str, Target] | None = None,
    ) -> None:
        """`targets`: where hosts are for each other, so that they can tell whether a silent one lives."""
        self._number = number
        self._launch = launch
        self._plan = plan
        self._screen = screen
        self._book = LogBook(launch.logs / plan.run_id)
        self._watch = Watch(plan)
        self._telling = Telling(self._watch, screen, self._book)
        self._happenings: queue.Queue[Happening] = queue.Queue(QUEUE_LENGTH)
        departure = Departure(self._watch, time.monotonic(), quiet_s=launch.quiet_s)
        self._departure = departure if launch.detach else None
        self._left = False
        self._vigil = Vigil(targets or {}, self._knock)
        self._vigil_begun = False
        self._followers = {
            node.host: self._follower(node, entry)
            for node, entry in zip(plan.nodes, launch.entries, strict=True)
        }

    def _follower(self, node: NodePlan, entry: HostEntry) -> Follower:
        launch, plan = self._launch, self._plan
        way = partial(launch.connections.take, entry)
        early = launch.early.take(node.host, plan.run_id) if launch.early else None
        start = protocol.start_request if early is None else protocol.order
        return Follower(
            plan.run_id,
            node,
            way if early is None else partial(_first, [early], way),
            start(plan, node, launch.grace_s, launch.entries),
            patience_s=launch.grace_s + FAILURE_GRACE_S,
            happenings=self._happenings,
        )

    def run(self) -> Outcome:
        """Start every node at once, follow them, return how it ended."""
        started = time.monotonic()
        directory = self._book.directory
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "plan.json").write_text(json.dumps(plan_json(self._plan), indent=1) + "\n")
        for name, text in self._launch.kept:
            (directory / name).write_text(text)
        remember(launch_record(self._plan, self._plan.nodes[0], self._launch.entries))
        self._book.note("started")
        for line in launch_lines(self._plan, str(directory)):
            self._screen.say(line)
        with interrupts_counted() as interrupts:
            for follower in self._followers.values():
                follower.start()
            try:
                self._loop(interrupts)
            except BaseException:
                self._abandon()
                raise
        self._act(Tick(time.time()))
        self._screen.finish()
        outcome = outcome_of(self._watch, directory, time.monotonic() - started, self._number)
        outcome = with_stacks(outcome, self._book)
        outcome = with_reasons(with_last_lines(outcome, self._book), self._book)
        outcome = self._telling.measured(outcome)
        outcome = replace(outcome, phases=(*self._launch.before, *outcome.phases))
        if self._left:
            outcome = replace(outcome, verdict="detached", exit_code=0)
        else:
            (directory / OUTCOME).write_text(json.dumps(outcome_json(outcome), indent=1) + "\n")
        self._book.note(outcome.verdict, bad=outcome.exit_code != 0)
        self._book.close()
        return outcome

    def port_was_taken(self, outcome: Outcome) -> bool:
        """Return whether it failed before its ranks met, because the main port had become somebody else's."""
        if outcome.verdict != "failed" or outcome.verified or self._plan.world_size == 1:
            return False
        main = self._plan.nodes[0].host
        cause = outcome.root_cause
        lines = list(self._book.last_lines(main, "launcher.log", 200))
        lines += self._book.last_lines(main, "rank-0.log", 200)
        return says_port_taken([*lines, *(cause.last_lines if cause else ())])

    def _loop(self, interrupts: "Interrupts") -> None:
        ticking = Ticking(self._happenings)
        while not self._watch.done and not self._may_leave():
            if by := interrupts.take():
                self._act(Interrupted(by))
            self._act(ticking.next())
            self._look_after_the_silent()

    def _look_after_the_silent(self) -> None:
        """Give up hosts that have died, by the word of the others."""
        if not self._vigil_begun:
            if len(self._watch.run_dirs) == len(self._watch.hosts):
                self._vigil_begun = True
                self._vigil.begin()
            return
        silent = self._watch.dropped - self._watch.ended.keys() - self._watch.lost.keys()
        for host, why in self._vigil.step(silent):
            self._followers[host].give_up(why)

    def _knock(self, asker: str, targets: tuple[Target, ...]) -> tuple[bool, ...]:
        entry = next(entry for entry in self._launch.entries if entry.name == asker)
        with self._launch.connections.borrow(entry) as connection:
            return which_answer(connection, entry.python, targets)

    def _may_leave(self) -> bool:
        """Return whether a detached run goes on without us; take the steps that lead there."""
        step = self._departure.step(time.monotonic()) if self._departure is not None else "wait"
        if step == "detach":
            for follower in self._followers.values():
                follower.detach()
        if step == "leave":
            self._left = True
            silent = ", ".join(sorted(set(self._watch.hosts) - self._watch.detached))
            if silent:
                grace = f"it ends there after {self._launch.grace_s:g} s unless somebody attaches"
                self._screen.say(f"{silent}: not heard that the run goes on without us; {grace}", bad=True)
            for follower in self._followers.values():
                follower.leave()
            deadline = time.monotonic() + LEAVE_S
            for follower in self._followers.values():
                follower.join(max(0.0, deadline - time.monotonic()))
        return self._left

    def _act(self, happening: Happening) -> None:
        if isinstance(happening, Output):
            self._telling.output(happening)
            return
        for stop in self._telling.take(happening):
            self._screen.quiet_launcher()
            for host in stop.hosts:
                self._followers[host].stop_run(stop.grace_s, stop.why, stacks=stop.stacks)

    def _abandon(self) -> None:
        """End the run everywhere: our side has failed (its disk, its terminal) and cannot watch it."""
        for follower in self._followers.values():
            follower.stop_run(FAILURE_GRACE_S, "the client failed")
        deadline = time.monotonic() + FAILURE_GRACE_S + 5.0
        while not self._watch.done and time.monotonic() < deadline:
            try:
                for _ in self._watch.handle(self._happenings.get(timeout=_POLL_S)):
                    pass
            except queue.Empty:
                continue


def _first(begun: list[Connection], way: Callable[[], Connection]) -> Connection:
    """Return what has begun already, once; a new connection after that."""
    return begun.pop() if begun else way()


class Interrupts:
    """Ctrl-C and its like, counted by the signal handler and taken by the loop."""

    def __init__(self) -> None:
        self._noted: list[int] = []

    def note(self, number: int, frame: FrameType | None) -> None:
        """Count one; the handler does nothing else, for it may run in the middle of anything."""
        del frame
        self._noted.append(number)

    def take(self) -> str:
        """Take the one that has waited longest; return its name, "" when none is waiting."""
        if not self._noted:
            return ""
        number = self._noted.pop(0)
        return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


@contextmanager
def interrupts_counted() -> Iterator[Interrupts]:
    """Count SIGINT, SIGTERM and SIGHUP: each of them ends the run everywhere before it ends us."""
    interrupts = Interrupts()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, interrupts.note) for number in numbers}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
