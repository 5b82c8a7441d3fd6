"""Whether hosts reach each other: every host listens for a moment, and connects to every other one."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, GpulaunchError, HostError
from launcher.remote import rpc
from launcher.remote.fanout import WIDTH, fanout
from launcher.remote.program_source import read_program_source
from launcher.remote.reachability import (
    CONNECT_TIMEOUT_S,
    PROBE_NAME,
    StartProgram,
    read_reached,
    report_untried,
)
from launcher.transports.base import Stream
from preflight.facts.host import NOT_LISTENING, Reach
from preflight.frozen import dataclass

MOST_HOSTS = 64  # of so many hosts each connects to each; with more, all connect to the main host only
_START_S = 15.0
_LET_GO_S = 2.0


@dataclass(frozen=True, slots=True)
class _Target:
    """A port of a host, and why it cannot listen on it, "" where it does."""

    host: str
    address: str
    port: int
    why: str = ""


class _Member:
    """A host of the round: its program, and the ports on which it listens."""

    def __init__(self, entry: HostEntry, address: str, stream: Stream) -> None:
        self.entry = entry
        self.address = address
        self.stream = stream
        self.targets: tuple[_Target, ...] = ()
        self._answers = rpc.Answers(stream, entry.name, entry.python, PROBE_NAME)

    def read_ports(self, timeout_s: float) -> None:
        """Take the ports. Raises HostError."""
        try:
            listening = self._answers.next(timeout_s)["listening"]
            name, address = self.entry.name, self.address
            self.targets = tuple(_Target(name, address, int(port), str(why)) for port, why in listening)
        except (KeyError, TypeError, ValueError):
            raise AgentProtocolError(
                self.entry.name, f"the answer of {PROBE_NAME} was not understood"
            ) from None

    def read_reached(self, targets: Sequence[_Target], timeout_s: float) -> tuple[Reach, ...]:
        """Return how the connects to these targets went. Raises HostError."""
        places = [(target.host, target.address, target.port) for target in targets]
        return read_reached(self.entry.name, self._answers.next(timeout_s), places)


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

    def start(entry: HostEntry) -> _Member:
        request = {
            "role": "listen",
            "ports": [port, 0] if entry is main else [0],
            "nonce": nonce,
            "timeout_s": CONNECT_TIMEOUT_S,
            "deadline_s": 2 * _START_S + 2 * CONNECT_TIMEOUT_S * len(entries),  # should all go in turn
        }
        stream = begin(entry.name, read_program_source("reachability"), rpc.line_of(request))
        member = _Member(entry, addresses.get(entry.name, ""), stream)
        member.read_ports(_START_S)
        return member

    members: dict[str, _Member] = {}
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
    found = _connected(entries, members, refused, width)
    main_stream = members[main.name].stream
    with suppress(HostError):  # what comes next may be the launch that wants the port
        main_stream.close_stdin()
        main_stream.wait(_LET_GO_S)
    return found


def _connected(
    entries: Sequence[HostEntry],
    members: Mapping[str, _Member],
    refused: Mapping[str, GpulaunchError],
    width: int,
) -> tuple[Reach, ...]:
    """Let all connect at the same time; return what was reached, the ways to the main host first."""
    main = members[entries[0].name]
    every = [target for member in members.values() for target in member.targets if member.address]
    wanted = {
        name: tuple(target for target in every if target.host != name and not target.why) for name in members
    }

    def connect(member: _Member) -> tuple[Reach, ...]:
        targets = wanted[member.entry.name]
        rows = [[target.address, target.port] for target in targets]
        member.stream.write(rpc.line_of({"targets": rows}))
        return member.read_reached(targets, _START_S + CONNECT_TIMEOUT_S)

    results = fanout(connect, members.values(), width=width)
    reached = {**refused, **dict(zip(members, results, strict=True))}
    to_main: list[Reach] = []
    others: list[Reach] = []
    for entry in entries:
        tried = reached[entry.name]
        for target in main.targets if entry.name != main.entry.name else ():
            if target.why:
                why = f"{main.entry.name} {NOT_LISTENING}: {target.why}"
            elif isinstance(tried, GpulaunchError):
                why = f"could not be tried: {tried.detail}"
            else:
                continue
            to_main.append(report_untried(entry, target.host, target.address, target.port, why))
        for each in () if isinstance(tried, GpulaunchError) else tried:
            (to_main if each.to_host == main.entry.name else others).append(each)
    return (*to_main, *others)
