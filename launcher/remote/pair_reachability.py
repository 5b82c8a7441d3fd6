"""Whether hosts reach each other: every host listens for a moment, and connects to every other one."""

import os
from collections.abc import Mapping, Sequence

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.remote import rpc
from launcher.remote.fanout import WIDTH, fanout
from launcher.remote.reachability import (
    CONNECT_TIMEOUT_S,
    START_S,
    ListeningHost,
    StartProgram,
    read_reached,
    report_untried,
)
from preflight.facts.host import NOT_LISTENING, Reach
from preflight.frozen import dataclass

MOST_HOSTS = 64  # of so many hosts each connects to each; with more, all connect to the main host only


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
