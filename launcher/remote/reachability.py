"""Whether hosts reach each other: a real TCP connect of every node to the main host, or of each to each."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, DescriptorsExhausted, GpulaunchError, HostError
from launcher.local.descriptors import limit_width
from launcher.remote import rpc
from launcher.remote.fanout import WIDTH, fanout
from launcher.remote.program_source import read_program_source
from launcher.text import one_line
from launcher.transports.base import Connection, Stream
from preflight.facts.host import NOT_LISTENING, Reach
from preflight.frozen import dataclass

MOST_HOSTS = 64  # of so many hosts each connects to each; with more, all connect to the main host only
CONNECT_TIMEOUT_S = 3.0  # a connect inside a cluster takes milliseconds; a filtered port never answers

StartProgram: TypeAlias = Callable[[str, bytes, bytes], Stream]
"""Starts a program with its input on a host, by name, and keeps its stream for closing. Raises HostError."""

START_S = 15.0  # for a program to start on a loaded host
_LET_GO_S = 2.0
_KNOCK_S = 3.0
_NOBODY = ("no answer", "No route to host", "Network is unreachable", "Host is down", "Connection timed out")
"""What a connect says where no host answers; every other error came from a host that lives."""
_PROBE_NAME = "the reachability probe"


def probe_reachability(
    main: HostEntry,
    others: Sequence[HostEntry],
    begin: StartProgram,
    *,
    address: str,
    port: int,
    width: int = WIDTH,
) -> tuple[Reach, ...]:
    """Let every other node connect to `address` on `port` and on one ephemeral port of the main host.

    Both are held only during the probe, and a nonce distinguishes our listener from another one. Nothing is
    raised for a host: what could not be tried is not reached, with the reason.
    """
    if not others:
        return ()
    width = limit_width(width)  # all of a batch are connected at once
    try:
        listener = start_listener(main, begin, port=port, callers=len(others), width=width)
    except HostError as failure:
        why = f"{main.name} could not listen: {failure.detail}"
        return tuple(report_untried(entry, main.name, address, port, why) for entry in others)
    targets = listener.targets_at(address)
    ask = partial(probe_from, begin=begin, targets=targets)
    reached: list[Reach] = []
    for first in range(0, len(others), width):
        batch = others[first : first + width]
        for entry, found in zip(batch, fanout(ask, batch, width=width), strict=True):
            reached += (
                targets.list_missed(entry, found.detail) if isinstance(found, GpulaunchError) else found
            )
    listener.release_ports()
    return tuple(reached)


@dataclass(frozen=True, slots=True)
class ProbeTargets:
    """Where every other node connects to: the ports that the main host holds, and those that it could not."""

    main: str
    address: str
    nonce: str
    ports: tuple[int, ...]
    failed: tuple[tuple[int, str], ...]

    def list_missed(self, entry: HostEntry, why: str) -> tuple[Reach, ...]:
        """Return what is reported of a host that could not try."""
        return tuple(
            report_untried(entry, self.main, self.address, held, f"could not be tried: {why}")
            for held in self.ports
        )

    @property
    def request(self) -> dict[str, Any]:
        """What the program on each host is asked."""
        return {
            "role": "connect",
            "targets": [[self.address, held] for held in self.ports],
            "nonce": self.nonce,
            "timeout_s": CONNECT_TIMEOUT_S,
        }


class ListeningHost:
    """A host that listens until its ports are released: its program, and the ports that it was to hold."""

    def __init__(
        self, entry: HostEntry, begin: StartProgram, ports: Sequence[int], *, nonce: str, deadline_s: float
    ) -> None:
        """Let it listen, where 0 is an ephemeral port. Raises HostError."""
        request = {
            "role": "listen",
            "ports": ports,
            "nonce": nonce,
            "timeout_s": CONNECT_TIMEOUT_S,
            "deadline_s": deadline_s,
        }
        self.name, self._nonce = entry.name, nonce
        self.stream = _start(begin, entry, request)
        self.answers = rpc.Answers(self.stream, entry.name, entry.python, _PROBE_NAME)
        try:
            listening = self.answers.next(START_S)["listening"]
            self.ports = tuple((int(port), str(why)) for port, why in listening)  # why not, "" where it does
        except (KeyError, TypeError, ValueError):
            raise _misunderstood(entry.name) from None

    def targets_at(self, address: str) -> ProbeTargets:
        """Return where others connect to, who call it by this address."""
        held = tuple(port for port, why in self.ports if not why)
        failed = tuple((port, why) for port, why in self.ports if why)
        return ProbeTargets(self.name, address, self._nonce, held, failed)

    def release_ports(self) -> None:
        """Wait until the ports are free again: what comes next may be the launch that wants them."""
        with suppress(HostError):
            self.stream.close_stdin()
            self.stream.wait(_LET_GO_S)


def start_listener(
    main: HostEntry, begin: StartProgram, *, port: int, callers: int, width: int
) -> ListeningHost:
    """Let the main host listen on `port` and on an ephemeral one until its ports are released.

    It ends alone after the time that so many callers need, `width` of them at once. Raises HostError.
    """
    nonce = os.urandom(16).hex()
    deadline_s = 2 * START_S + (START_S + CONNECT_TIMEOUT_S) * (1 + callers // width)
    return ListeningHost(main, begin, (port, 0), nonce=nonce, deadline_s=deadline_s)


def probe_from(entry: HostEntry, begin: StartProgram, targets: ProbeTargets) -> tuple[Reach, ...]:
    """Let one host connect to the targets. Raises DescriptorsExhausted: it can be tried again."""
    places = [(targets.main, targets.address, held) for held in targets.ports]
    try:
        answers = rpc.Answers(_start(begin, entry, targets.request), entry.name, entry.python, _PROBE_NAME)
        found = read_reached(entry.name, answers.next(START_S + CONNECT_TIMEOUT_S), places)
    except DescriptorsExhausted:
        raise
    except GpulaunchError as failure:
        found = targets.list_missed(entry, failure.detail)
    unheld = (
        report_untried(entry, targets.main, targets.address, held, f"{targets.main} {NOT_LISTENING}: {why}")
        for held, why in targets.failed
    )
    return (*found, *unheld)


def probe_targets(
    connection: Connection, python: str, targets: Sequence[tuple[str, int]]
) -> tuple[bool, ...]:
    """Say of each (address, port) whether anything answers a host, if by refusal. Raises HostError."""
    request = {
        "role": "connect",
        "targets": [list(target) for target in targets],
        "nonce": "",  # to be accepted is enough
        "timeout_s": _KNOCK_S,
    }
    timeout_s = START_S + _KNOCK_S
    answer = rpc.run_program(
        connection, python, "probe_connections", request, name=_PROBE_NAME, timeout_s=timeout_s
    )
    reached = read_reached(connection.name, answer, [("", *target) for target in targets])
    return tuple(not reach.error.startswith(_NOBODY) for reach in reached)


def read_reached(
    name: str, answer: Mapping[str, Any], targets: Sequence[tuple[str, str, int]]
) -> tuple[Reach, ...]:
    """Return how a host's connects to (host, address, port) went. Raises AgentProtocolError."""
    try:
        return tuple(
            Reach(name, *target, ok=not error, error=one_line(str(error)), ms=float(ms))
            for target, (_, _, error, ms) in zip(targets, answer["reached"], strict=True)
        )
    except (KeyError, TypeError, ValueError):
        raise _misunderstood(name) from None


def _misunderstood(name: str) -> AgentProtocolError:
    return AgentProtocolError(name, f"the answer of {_PROBE_NAME} was not understood")


def _start(begin: StartProgram, entry: HostEntry, request: dict[str, Any]) -> Stream:
    return begin(entry.name, read_program_source("probe_connections"), rpc.encode_line(request))


def report_untried(entry: HostEntry, main: str, address: str, port: int, why: str) -> Reach:
    """Return what is reported of a connection that was not tried, with the reason."""
    return Reach(entry.name, main, address, port, ok=False, error=why, ms=0.0)


@dataclass(frozen=True, slots=True)
class _Target:
    """A port of a host, and why it cannot listen on it, "" where it does."""

    host: str
    address: str
    port: int
    why: str = ""


def probe_pairs(
    entries: Sequence[HostEntry],
    begin: StartProgram,
    *,
    addresses: Mapping[str, str],
    port: int,
    width: int = WIDTH,
) -> tuple[Reach, ...]:
    """Let every host connect to the main host, the first of `entries`, and to every other one.

    To the main host they connect on `port` and on an ephemeral port of it, to the others on an ephemeral one.
    `addresses` are those at which ranks would be called; no host connects to one without an address. Nothing
    is raised for a host: where the main host could not be tried, it is not reached, with the reason; other
    ways that could not be tried are left out.
    """
    main = entries[0]
    nonce = os.urandom(16).hex()
    deadline_s = 2 * START_S + 2 * CONNECT_TIMEOUT_S * len(entries)  # should all go in turn

    def start(entry: HostEntry) -> ListeningHost:
        ports = (port, 0) if entry is main else (0,)
        return ListeningHost(entry, begin, ports, nonce=nonce, deadline_s=deadline_s)

    members: dict[str, ListeningHost] = {}
    refused: dict[str, GpulaunchError] = {}
    for entry, result in zip(entries, fanout(start, entries, width=width), strict=True):
        if isinstance(result, GpulaunchError):
            refused[entry.name] = result
        else:
            members[entry.name] = result
    if main.name not in members:
        why = f"{main.name} could not listen: {refused[main.name].detail}"
        address = addresses[main.name]
        return tuple(report_untried(entry, main.name, address, port, why) for entry in entries[1:])
    found = _connected(entries, members, refused, addresses, width)
    members[main.name].release_ports()
    return found


def _connected(
    entries: Sequence[HostEntry],
    members: Mapping[str, ListeningHost],
    refused: Mapping[str, GpulaunchError],
    addresses: Mapping[str, str],
    width: int,
) -> tuple[Reach, ...]:
    """Let all connect at the same time; return what was reached, the ways to the main host first."""
    main = entries[0].name
    listening = {
        name: [_Target(name, addresses[name], port, why) for port, why in member.ports]
        for name, member in members.items()
        if addresses.get(name)
    }
    every = [target for targets in listening.values() for target in targets if not target.why]

    def connect(member: ListeningHost) -> tuple[Reach, ...]:
        targets = [target for target in every if target.host != member.name]
        member.stream.write(
            rpc.encode_line({"targets": [[target.address, target.port] for target in targets]})
        )
        places = [(target.host, target.address, target.port) for target in targets]
        return read_reached(member.name, member.answers.next(START_S + CONNECT_TIMEOUT_S), places)

    results = fanout(connect, members.values(), width=width)
    reached = {**refused, **dict(zip(members, results, strict=True))}
    to_main: list[Reach] = []
    others: list[Reach] = []
    for entry in entries:
        tried = reached[entry.name]
        for target in listening[main] if entry.name != main else ():
            if target.why:
                why = f"{main} {NOT_LISTENING}: {target.why}"
            elif isinstance(tried, GpulaunchError):
                why = f"could not be tried: {tried.detail}"
            else:
                continue
            to_main.append(report_untried(entry, target.host, target.address, target.port, why))
        for each in () if isinstance(tried, GpulaunchError) else tried:
            (to_main if each.to_host == main else others).append(each)
    return (*to_main, *others)
