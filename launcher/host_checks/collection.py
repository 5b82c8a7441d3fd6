"""Facts of all hosts, whom each reaches, and when each answered: by this process, or by shards of it."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeAlias

from launcher.config.inventory import HostEntry
from launcher.config.node_sets import fold_hosts
from launcher.errors import GpulaunchError, HostError, LaunchRefused
from launcher.planning.main_address_and_port import LOOPBACK, choose_main_address
from launcher.remote.agent import AgentRequest, GatherOptions, GatherResult, gather_facts
from launcher.remote.agent_sessions import AgentSessions
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.earlier_facts import EarlierOf
from launcher.remote.reachability import ListeningHost, ProbeTargets, StartProgram, start_listener
from launcher.remote.shards.count import SHARD_WIDTH
from launcher.remote.shards.terminal_questions import ShardAccess
from launcher.terminal.output import echo, leave_questions
from launcher.transports.base import Connection
from preflight.facts.host import HostFacts, Reach
from preflight.facts.missing import Missing

if TYPE_CHECKING:
    from preflight.checks.registry import ClockOffset

ReachabilityProbe: TypeAlias = Callable[
    [Sequence[HostEntry], Mapping[str, HostFacts], int, StartProgram], tuple[Reach, ...]
]
"""Connects from every other node to the first one on the port that the launch will use.

`StartProgram` starts a program on a host that has answered.
"""

OnHostDone: TypeAlias = Callable[[HostEntry, "HostFacts | GpulaunchError"], None]
FindPort: TypeAlias = Callable[[HostFacts], int]  # returns the port that a launch would take on the main host
Collected: TypeAlias = tuple[GatherResult, tuple[Reach, ...]]

_MAIN_HOST_S = 3.0  # how long shards wait for a connection to the main host, which is to listen for them
_MAIN_ANSWER_S = 15.0
"""How long they wait for its answer once it is connected: every host would be connected to a second time
where it listens too late."""


@contextmanager
def name_awaited_hosts(entries: Iterable[HostEntry], on_done: OnHostDone | None) -> Iterator[OnHostDone]:
    """Yield what `on_done` is called by; after a Ctrl-C, say which hosts had not answered."""
    awaited = {entry.name: None for entry in entries}

    def note(entry: HostEntry, result: "HostFacts | GpulaunchError") -> None:
        awaited.pop(entry.name, None)
        if on_done is not None:
            on_done(entry, result)

    try:
        yield note
    except KeyboardInterrupt:
        leave_questions()
        if awaited:
            echo(f"interrupted: no answer yet from {fold_hosts(awaited)}", err=True)
        raise


class Collection:
    """One round of questions to all hosts; the first one is the main host."""

    def __init__(
        self,
        hosts: Sequence[HostEntry],
        request_for: Callable[[HostEntry], AgentRequest],
        opener: OpenConnection,
        width: int,
        on_done: OnHostDone | None,
        earlier: EarlierOf | None = None,
        while_waiting: Callable[[], object] | None = None,
    ) -> None:
        self.clocks: dict[str, ClockOffset] = {}
        self.started = time.monotonic()
        self._started_unix = time.time()
        self._hosts = tuple(hosts)
        self._request_for = request_for
        self._opener = opener
        self._width = width
        self._on_done = on_done
        self._earlier = earlier
        self._while_waiting = while_waiting

    def collect(self, probe: ReachabilityProbe | None, find_port: FindPort) -> Collected:
        """Ask all hosts from this process."""
        with AgentSessions(self._opener, self._hosts, width=self._width) as waiting:
            gathered = gather_facts(
                self._hosts,
                self._request_for,
                self._opener,
                GatherOptions(
                    width=self._width,
                    on_done=self._note,
                    waiting=waiting if probe else None,
                    earlier=self._earlier,
                    while_waiting=self._while_waiting,
                ),
            )
            return gathered, self._probe(probe, find_port, gathered.facts, waiting)

    def collect_sharded(
        self, access: ShardAccess, count: int, probe: ReachabilityProbe | None, find_port: FindPort
    ) -> Collected:
        """Ask all hosts from `count` processes, which also let each connect to the main host.

        This process holds the main host's listener meanwhile. Where that host listens too late, or has no
        address but loopback, `probe` connects to the hosts again.
        """
        from launcher.remote.shards.client import Shards  # noqa: PLC0415 - modules that only many hosts need

        main, others = self._hosts[0], self._hosts[1:]
        with (
            Shards(access, count) as shards,
            AgentSessions(self._opener, self._hosts, width=self._width) as waiting,
        ):
            staying = waiting if probe else None
            first = _MainHost(main, self._request_for, self._opener, staying, self._earlier)
            if probe:
                first.wait(_MAIN_HOST_S, _MAIN_ANSWER_S)
            listening = self._listen(first, waiting, find_port, count) if probe else None
            listener, targets = listening or (None, None)
            gathered, reached = shards.gather(
                others, self._request_for, targets=targets, on_answer=self._note, earlier=self._earlier
            )
            if listener is not None:
                listener.release_ports()
            alone = first.result()
            self._note(main, alone.facts.get(main.name) or alone.errors[main.name], first.answered_unix)
            facts, errors = {**alone.facts, **gathered.facts}, {**alone.errors, **gathered.errors}
            if listener is None:
                reached = self._probe(probe, find_port, facts, waiting)
            return GatherResult(facts, errors, {**alone.logins, **gathered.logins}), reached

    def _listen(
        self, main: "_MainHost", waiting: AgentSessions, find_port: FindPort, count: int
    ) -> tuple[ListeningHost, ProbeTargets] | None:
        """Let the main host listen, where it has answered, can, and has an address for others."""
        facts = main.facts
        if facts is None:
            return None
        pair = (self._hosts[0], facts)
        with suppress(LaunchRefused, HostError):
            address, _ = choose_main_address([pair, pair])
            if address != LOOPBACK:
                width, callers = SHARD_WIDTH * count, len(self._hosts)
                start, port = waiting.start_program, find_port(facts)
                found = start_listener(self._hosts[0], start, port=port, callers=callers, width=width)
                return found, found.targets_at(address)
        return None

    def _probe(
        self,
        probe: ReachabilityProbe | None,
        find_port: FindPort,
        facts: Mapping[str, HostFacts],
        waiting: AgentSessions,
    ) -> tuple[Reach, ...]:
        order = [entry for entry in self._hosts if entry.name in facts]
        if probe is None or len(order) < 2:
            return ()
        return probe(order, facts, find_port(facts[order[0].name]), waiting.start_program)

    def _note(
        self, entry: HostEntry, result: HostFacts | GpulaunchError, answered_unix: float | None = None
    ) -> None:
        """Take one host's answer; when it came bounds how far its clock can be off."""
        if isinstance(result, HostFacts) and not isinstance(result.identity, Missing):
            now = result.identity.now_unix
            self.clocks[entry.name] = (now - (answered_unix or time.time()), now - self._started_unix)
        if self._on_done is not None:
            self._on_done(entry, result)


class _MainHost:
    """The main host asked in a thread of its own: the others need not wait for one that is silent."""

    def __init__(
        self,
        entry: HostEntry,
        request_for: Callable[[HostEntry], AgentRequest],
        opener: OpenConnection,
        waiting: AgentSessions | None,
        earlier: EarlierOf | None,
    ) -> None:
        self._entry = entry
        self.answered_unix: float | None = None
        self._result: GatherResult | None = None
        self._failure: BaseException | None = None
        self._connected = False
        self._arguments = (request_for, opener, waiting, earlier)
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    @property
    def facts(self) -> HostFacts | None:
        """Its facts, where it has answered so far."""
        return None if self._result is None else self._result.facts.get(self._entry.name)

    def wait(self, connect_s: float, answer_s: float) -> None:
        """Wait for its answer, `answer_s` at most, and only `connect_s` where it is not connected by then."""
        self._thread.join(connect_s)
        if self._connected:
            self._thread.join(answer_s)

    def result(self) -> GatherResult:
        """Return what came of it, once it has. Raises an error that belongs to none of the hosts."""
        self._thread.join()
        if self._result is None:
            raise self._failure or RuntimeError("the main host has no result")
        return self._result

    def _ask(self) -> None:
        request_for, opener, waiting, earlier = self._arguments

        def open_entry(entry: HostEntry) -> Connection:
            connection = opener(entry)
            self._connected = True
            return connection

        try:
            self._result = gather_facts(
                [self._entry], request_for, open_entry, GatherOptions(waiting=waiting, earlier=earlier)
            )
            self.answered_unix = time.time()
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            self._failure = error
