"""Programs of launcher/onhost/ that answer with a line of JSON, below whatever a login shell printed.

The agent (agent.py) and the supervisor (follow/protocol.py) have readers of their own: facts are announced by
their length and never searched for a line's end, and a supervisor's answers carry bytes.
"""

import json
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from launcher import safe_json
from launcher.errors import AgentProtocolError, AgentTimedOut, HostError
from launcher.local.fanout_places import PROGRAM, release_place
from launcher.remote.program_source import build_stdin_command, read_program_source
from launcher.remote.shell_errors import explain_no_answer
from launcher.text import one_line, tail_lines
from launcher.transports.base import CommandResult, Connection, Stream

MAX_ANSWER = 64 << 20  # bytes of one answer: a receiver's list of a tree's files is the longest
MAX_OUTPUT = 16 << 20
"""Bytes taken from a program that answers once, or that a host says without an answer: many hosts may talk
without end side by side."""
_MARKER = b"\nGPULAUNCH-ANSWER-1 "
_STDERR_KEPT = 4096
_LAST_WORDS_S = 5.0
_STDERR_TURN_S = 1.0


def run_program(
    connection: Connection,
    python: str,
    program: str,
    request: Mapping[str, Any],
    *,
    name: str,
    timeout_s: float,
) -> dict[str, Any]:
    """Run a program of launcher/onhost/ to its end and return its answer. `name` is what messages call it.

    Raises AgentProtocolError, with its last words, when it gave none, or the HostError that says why.
    """
    argv, stdin = build_stdin_command(
        python, read_program_source(program), encode_line(request), name=f"{program}.py"
    )
    done = connection.run(argv, stdin=stdin, timeout_s=timeout_s, max_output=MAX_OUTPUT, is_whole=_has_answer)
    return find_answer(done, connection.name, python, name, connection)


def encode_line(document: Mapping[str, Any]) -> bytes:
    """Return a request as programs read it."""
    return json.dumps(document).encode() + b"\n"


def _has_answer(stdout: bytes) -> bool:
    return b"\n" in stdout.rpartition(_MARKER)[2] and _MARKER in stdout


def find_answer(
    done: CommandResult, host: str, python: str, name: str, connection: Connection | None = None
) -> dict[str, Any]:
    """Return the answer of a program that has ended. Raises as `run_program`."""
    noise, marker, rest = done.stdout.rpartition(_MARKER)
    line, end, _ = rest.partition(b"\n")
    if marker and end:
        return _parsed(line, host, name)
    who = _Called(host, python, name, connection)
    raise _unanswered(who, done.exit_status, done.stderr, noise or done.stdout)


class _Called(NamedTuple):
    """A program that is asked on a host, as messages name it."""

    host: str
    python: str
    name: str
    connection: Connection | None = None


class Answers:
    """The answers of a program that continues, read from its stream one by one; its user closes the
    stream. Stderr, which holds 2 MiB, is drained every `turn_s`.
    """

    def __init__(
        self, stream: Stream, host: str, python: str, name: str, *, turn_s: float = _STDERR_TURN_S
    ) -> None:
        self._stream = stream
        self._turn_s = turn_s
        self._who = _Called(host, python, name)
        self._data = bytearray()
        self._searched = 0
        self._answered = False
        self._noise = 0  # bytes that came without an answer and are not kept
        self._stderr = b""

    def next(self, timeout_s: float) -> dict[str, Any]:
        """Return the next one. Raises AgentTimedOut, and what `run_program` raises when it has ended."""
        with release_place(PROGRAM) as wait:
            answer = self._await(timeout_s)
            wait.note_answer()
        return answer

    def _await(self, timeout_s: float) -> dict[str, Any]:
        host, name = self._who.host, self._who.name
        deadline = time.monotonic() + timeout_s
        while True:
            line = self._take_line()
            if line is not None:
                return _parsed(line, host, name)
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise AgentTimedOut(host, f"{name} did not answer within {timeout_s:g} s")
            part = self._stream.read(min(self._turn_s, left_s))
            self._stderr = (self._stderr + self._stream.read_stderr())[-_STDERR_KEPT:]
            self._data += part or b""
            if part == b"" or len(self._data) > MAX_ANSWER or self._noise > MAX_OUTPUT:
                status = self._stream.wait(_LAST_WORDS_S)
                self._stderr = (self._stderr + self._stream.read_stderr())[-_STDERR_KEPT:]
                if self._answered:
                    raise _no_more(host, name, self._stderr or bytes(self._data))
                raise _unanswered(self._who, status, self._stderr, bytes(self._data))

    def _take_line(self) -> bytes | None:
        """Return the next answer, without looking twice at what was searched for its end."""
        data, length = self._data, len(_MARKER)
        at = data.find(_MARKER)
        if at < 0:
            spare = max(0, len(data) - 2 * _STDERR_KEPT)
            del data[:spare]
            self._noise += spare
            return None
        del data[:at]
        end = data.find(b"\n", max(length, self._searched))
        if end < 0:
            self._searched = len(data)
            return None
        line = bytes(data[length:end])
        del data[: end + 1]
        self._searched = 0
        self._answered = True
        return line


def _unanswered(who: _Called, status: int | None, stderr: bytes, noise: bytes) -> HostError:
    host, python, name, connection = who
    refusal = explain_no_answer(host, python, status, stderr=stderr, noise=noise, connection=connection)
    return refusal or _no_more(host, name, stderr or noise)


def _no_more(host: str, name: str, output: bytes) -> HostError:
    said = tail_lines(output) or "it said nothing"
    return AgentProtocolError(host, f"{name} ended without an answer: {said}")


def _parsed(line: bytes, host: str, name: str) -> dict[str, Any]:
    try:
        answer = safe_json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise AgentProtocolError(host, f"the answer of {name} is not JSON: {one_line(line, 80)}")
    return answer
