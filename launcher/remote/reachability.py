"""Whether every node reaches the main host: a real TCP connect from each, on the port that will be used."""

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, GpulaunchError, HostError
from launcher.local.descriptors import bounded_width
from launcher.remote import rpc
from launcher.remote.fanout import WIDTH, fanout
from launcher.remote.programs import program_source
from launcher.text import one_line
from launcher.transports.base import Connection, Stream
from preflight.facts.host import Reach
from preflight.frozen import dataclass

CONNECT_TIMEOUT_S = 3.0
"""A connect inside a cluster takes milliseconds; a filtered port never answers."""

StartProgram: TypeAlias = Callable[[str, bytes, bytes], Stream]
"""Starts a program with its input on a host, by name, and keeps its stream for closing. Raises HostError."""

_START_S = 15.0
"""For a program to start on a loaded host."""
_LET_GO_S = 2.0
_FEW_BATCHES = 4
"""Beyond these, hosts may have to be connected to again."""
_KNOCK_S = 3.0
_NOBODY = ("no answer", "No route to host", "Network is unreachable", "Host is down", "Connection timed out")
"""What a connect says where no host answers; every other error came from a host that lives."""
_NAME = "the reachability probe"


@dataclass(frozen=True, slots=True)
class _Listening:
    """The ports held on the main host, and those that could not be, with the reason."""

    ports: tuple[int, ...]
    failed: tuple[tuple[int, str], ...]


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
    width = bounded_width(width)  # all of a batch are connected at once
    nonce = secrets.token_hex(16)
    asked = {
        "role": "listen",
        "port": port,
        "nonce": nonce,
        "deadline_s": 2 * _START_S + (_START_S + CONNECT_TIMEOUT_S) * (1 + len(others) // width),
    }
    try:
        listener = _start(begin, main, asked)
        told = rpc.Answers(listener, main.name, main.python, _NAME).next(_START_S)["listening"]
        listening = _Listening(
            tuple(int(held) for held, error in told if not error),
            tuple((int(held), str(error)) for held, error in told if error),
        )
    except (HostError, KeyError, TypeError, ValueError) as failure:
        why = failure.detail if isinstance(failure, HostError) else "its answer was not understood"
        return tuple(
            _not_tried(entry, main, address, port, f"{main.name} could not listen: {why}") for entry in others
        )
    targets = _Targets(main, address, listening, nonce)
    batches = (others[first : first + width] for first in range(0, len(others), width))
    at_once = len(others) > _FEW_BATCHES * width
    found = tuple(reach for batch in batches for reach in _from_batch(batch, begin, targets, at_once=at_once))
    _let_go(listener)
    return found


def _let_go(listener: Stream) -> None:
    """Wait until the ports are free again: what comes next may be the launch that wants them."""
    listener.close_stdin()
    with suppress(HostError):
        listener.wait(_LET_GO_S)


@dataclass(frozen=True, slots=True)
class _Targets:
    main: HostEntry
    address: str
    listening: _Listening
    nonce: str

    def missed(self, entry: HostEntry, why: str) -> tuple[Reach, ...]:
        """Return what is reported of a host that could not try."""
        return tuple(
            _not_tried(entry, self.main, self.address, held, f"could not be tried: {why}")
            for held in self.listening.ports
        )


def probe_targets(
    connection: Connection, python: str, targets: Sequence[tuple[str, int]]
) -> tuple[bool, ...]:
    """Say of each (address, port) whether anything answers a host at it, if only to refuse.

    Raises HostError when that host cannot be asked.
    """
    asked = {
        "role": "connect",
        "targets": [list(target) for target in targets],
        "nonce": "",  # to be accepted is enough
        "timeout_s": _KNOCK_S,
    }
    answer = rpc.call(connection, python, "probe_ports", asked, name=_NAME, timeout_s=_START_S + _KNOCK_S)
    try:
        errors = [str(error) for _, _, error, _ in answer["reached"]]
    except (KeyError, TypeError, ValueError):
        errors = []
    if len(errors) != len(targets):
        raise AgentProtocolError(connection.name, f"the answer of {_NAME} was not understood")
    return tuple(not error.startswith(_NOBODY) for error in errors)


def _from_batch(
    batch: Sequence[HostEntry], begin: StartProgram, targets: _Targets, *, at_once: bool
) -> tuple[Reach, ...]:
    """Start all, then read all: they connect at the same time, and no thread waits for each."""
    asked = {
        "role": "connect",
        "targets": [[targets.address, held] for held in targets.listening.ports],
        "nonce": targets.nonce,
        "timeout_s": CONNECT_TIMEOUT_S,
    }
    # Where agents wait this is one message each, and a thread for each would cost more.
    side_by_side = len(batch) if at_once else 1
    results = fanout(lambda entry: _start(begin, entry, asked), batch, width=side_by_side)
    started = {entry.name: result for entry, result in zip(batch, results, strict=True)}
    deadline = time.monotonic() + _START_S + CONNECT_TIMEOUT_S
    found: list[Reach] = []
    for entry in batch:
        try:
            found += _reached(entry, started[entry.name], targets.main, deadline)
        except HostError as failure:
            found += targets.missed(entry, failure.detail)
        found += (
            _not_tried(
                entry,
                targets.main,
                targets.address,
                held,
                f"{targets.main.name} cannot listen on it:  {error}",
            )
            for held, error in targets.listening.failed
        )
    return tuple(found)


def _reached(
    entry: HostEntry, stream: Stream | GpulaunchError, main: HostEntry, deadline: float
) -> tuple[Reach, ...]:
    if isinstance(stream, GpulaunchError):
        raise stream
    answers = rpc.Answers(stream, entry.name, entry.python, _NAME)
    answer = answers.next(max(0.1, deadline - time.monotonic()))
    try:
        return tuple(
            Reach(
                entry.name,
                main.name,
                str(address),
                int(held),
                ok=not error,
                error=one_line(str(error)),
                ms=float(ms),
            )
            for address, held, error, ms in answer["reached"]
        )
    except (KeyError, TypeError, ValueError):
        raise AgentProtocolError(entry.name, f"the answer of {_NAME} was not understood") from None


def _start(begin: StartProgram, entry: HostEntry, asked: dict[str, Any]) -> Stream:
    return begin(entry.name, program_source("probe_ports"), rpc.line_of(asked))


def _not_tried(entry: HostEntry, main: HostEntry, address: str, port: int, why: str) -> Reach:
    return Reach(entry.name, main.name, address, port, ok=False, error=why, ms=0.0)
