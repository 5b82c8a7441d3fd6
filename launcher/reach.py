"""Whether every node reaches the main host: a real TCP connect from each, on the port that will be used."""

import json
import secrets
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from launcher.errors import AgentGarbage, AgentTooSlow, HostError
from launcher.fanout import WIDTH, fanout
from launcher.gather import Open
from launcher.inventory import HostEntry
from launcher.onhost_source import onhost_source, stdin_for
from launcher.report.text import clean, one_line
from launcher.transports.base import Stream
from preflight.facts import Reach

CONNECT_TIMEOUT_S = 3.0
"""A connect inside a cluster takes milliseconds; a filtered port never answers."""

_START_S = 15.0
"""For the interpreter there to start."""
_MARKER = b"\nGPULAUNCH-REACH-1 "
_MAX_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True)
class _Listening:
    """The ports held on the main host, and those that could not be, with the reason."""

    ports: tuple[int, ...]
    failed: tuple[tuple[int, str], ...]


def probe_reach(
    main: HostEntry,
    others: Sequence[HostEntry],
    opener: Open,
    *,
    address: str,
    port: int,
    width: int = WIDTH,
) -> tuple[Reach, ...]:
    """Let every other node connect to `address` on `port` and on one ephemeral port of the main host.

    Both are held there only during the probe, and a nonce tells our listener from anybody else's. Nothing is
    raised for a host: what could not be tried is not reached, with the reason.
    """
    if not others:
        return ()
    nonce = secrets.token_hex(16)
    try:
        with opener(main) as connection:
            asked = {
                "role": "listen",
                "port": port,
                "nonce": nonce,
                "deadline_s": 2 * _START_S + CONNECT_TIMEOUT_S + 60.0 * (1 + len(others) // width),
            }
            argv, stdin = _program(main, asked)
            with closing(connection.start(argv)) as stream:
                stream.write(stdin)
                told = _answer(stream, main.name, _START_S)["listening"]
                listening = _Listening(
                    tuple(int(held) for held, error in told if not error),
                    tuple((int(held), str(error)) for held, error in told if error),
                )
                return _from_all(main, others, opener, _Targets(address, listening, nonce), width)
    except (HostError, KeyError, TypeError, ValueError) as failure:
        why = failure.detail if isinstance(failure, HostError) else "its answer was not understood"
        return tuple(
            _not_tried(entry, main, address, port, f"{main.name} could not listen: {why}") for entry in others
        )


@dataclass(frozen=True, slots=True)
class _Targets:
    address: str
    listening: _Listening
    nonce: str


def _from_all(
    main: HostEntry, others: Sequence[HostEntry], opener: Open, targets: _Targets, width: int
) -> tuple[Reach, ...]:
    def one(entry: HostEntry) -> tuple[Reach, ...]:
        return _from_one(entry, main, opener, targets)

    found: list[Reach] = []
    for entry, result in zip(others, fanout(one, others, width=width), strict=True):
        if isinstance(result, tuple):
            found += result
        else:
            why = result.detail if isinstance(result, HostError) else result.message
            found += (
                _not_tried(entry, main, targets.address, held, f"could not be tried: {why}")
                for held in targets.listening.ports
            )
        found += (
            _not_tried(entry, main, targets.address, held, f"{main.name} cannot listen there: {error}")
            for held, error in targets.listening.failed
        )
    return tuple(found)


def _from_one(entry: HostEntry, main: HostEntry, opener: Open, targets: _Targets) -> tuple[Reach, ...]:
    asked = {
        "role": "connect",
        "targets": [[targets.address, held] for held in targets.listening.ports],
        "nonce": targets.nonce,
        "timeout_s": CONNECT_TIMEOUT_S,
    }
    argv, stdin = _program(entry, asked)
    with opener(entry) as connection, closing(connection.start(argv)) as stream:
        stream.write(stdin)
        answer = _answer(stream, entry.name, _START_S + CONNECT_TIMEOUT_S)
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
        raise AgentGarbage(entry.name, "the reachability probe's answer was not understood") from None


def _program(entry: HostEntry, asked: dict[str, Any]) -> tuple[tuple[str, ...], bytes]:
    line = json.dumps(asked).encode() + b"\n"
    return stdin_for(entry.python, onhost_source("reach"), line, name="reach.py")


def _answer(stream: Stream, host: str, timeout_s: float) -> dict[str, Any]:
    """Read up to the marker's line, past whatever a login shell printed, and return its JSON."""
    deadline = time.monotonic() + timeout_s
    data, stderr = b"", b""
    while time.monotonic() < deadline:
        part = stream.read(min(1.0, max(0.0, deadline - time.monotonic())))
        stderr = (stderr + stream.read_stderr())[-4096:]
        data += part or b""
        _, marker, rest = data.partition(_MARKER)
        line, end, _ = rest.partition(b"\n")
        if marker and end:
            return _parsed(host, line)
        if part == b"" or len(data) > _MAX_ANSWER:
            said = one_line(" | ".join(clean(stderr).splitlines()[-3:]) or "it said nothing")
            raise AgentGarbage(host, f"the reachability probe ended without an answer: {said}")
    raise AgentTooSlow(host, f"the reachability probe did not answer within {timeout_s:g} s")


def _parsed(host: str, line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise AgentGarbage(host, f"the reachability probe's answer is not JSON: {one_line(line, 80)}")
    return answer


def _not_tried(entry: HostEntry, main: HostEntry, address: str, port: int, why: str) -> Reach:
    return Reach(entry.name, main.name, address, port, ok=False, error=why, ms=0.0)
