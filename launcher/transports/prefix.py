"""The transport made of a command prefix: `docker exec -i NAME`, `kubectl exec -i POD --`, a user's words.

The prefix runs over another connection, local or SSH, and carries bytes to a program that it starts.
"""

import contextlib
import shlex
import time
from collections.abc import Iterable
from typing import Unpack

from launcher.config.via_options import COMMAND, Via, fill_places
from launcher.errors import CommandMissing, HostError, PrefixFailed
from launcher.text import one_line, sanitize
from launcher.transports.base import Closing, CommandResult, Connection, RunOptions, Stream
from launcher.transports.command import KillableStream
from launcher.transports.quoting import quote_argv
from preflight import regex as re
from preflight.facts.redaction import redact_words
from preflight.frozen import dataclass

_OPEN_S = 30.0
_NOT_FOUND = 127
_SHELL = "sh"
_BEGIN = 'exec "$0" "$@"'
_BEGIN_AT_HOME = 'exec "$HOME/$0" "$@"'
_MARK = b"gpulaunch-echo:"
_FIRST = _MARK + b"\r\n"  # sent ahead: a terminal changes it, and drops output at a Control-C
_SENT = _FIRST + bytes(range(256))
_ARGUMENT = b"gpulaunch  'opens'"  # one argument, which a shell would take for two
_ECHO = ("sh", "-c", 'cat; printf %s "$0"', _ARGUMENT.decode())
_MOST_NOISE = 1 << 16
_STDERR_TURN_S = 0.25
_LAST_S = 2.0
_OWN_LOG = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d")  # what kubectl logs (klog), before its own words
_STDERR_SHOWN = 300


@dataclass(frozen=True, slots=True)
class Prefix:
    """The words of a prefix. `{command}` in one of them becomes the command, quoted for a shell; without it
    the command's words are appended.

    A shell on the far side starts the program. It ends with 127 where there is none; the runtimes disagree on
    that (docker 20.10: 126, podman 4.3: 127, containerd under kubectl: 1).
    """

    words: tuple[str, ...]

    def argv(self, command: Iterable[str]) -> tuple[str, ...]:
        """Return the argv that starts `command` on the far side."""
        program, *rest = command
        if program.startswith("~/"):
            program, rest = _SHELL, ["-c", _BEGIN_AT_HOME, program[2:], *rest]
        elif program != _SHELL:
            program, rest = _SHELL, ["-c", _BEGIN, program, *rest]
        if any("{command}" in word for word in self.words):
            text = quote_argv((program, *rest))
            return tuple(fill_places(word, "", text) for word in self.words)
        return (*self.words, program, *rest)

    def plain_argv(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Return the argv as a person writes it, without a shell where none is needed."""
        fills = bool(command) and any("{command}" in word for word in self.words)
        needs_shell = fills or "".join(command[:1]).startswith("~/")
        return self.argv(command) if needs_shell else (*self.words, *command)


class PrefixConnection(Closing):
    """A host behind a prefix; see `base.Connection` for the contract. It owns the connection it runs over."""

    def __init__(self, name: str, base: Connection, prefix: Prefix) -> None:
        self.name = name
        self._base = base
        self._prefix = prefix

    def command_line(self, argv: Iterable[str]) -> str:
        """Return the prefix, without its secrets, with the command; see the contract."""
        return self._base.command_line(redact_words(self._prefix.plain_argv(tuple(argv))))

    def run(self, argv: Iterable[str], **options: Unpack[RunOptions]) -> CommandResult:
        """Run to the end; see the contract."""
        return self._base.run(self._prefix.argv(argv), **options)

    def start(self, argv: Iterable[str]) -> Stream:
        """Start and stream; see the contract."""
        return self._base.start(self._prefix.argv(argv))

    def close(self) -> None:
        """Close; idempotent."""
        self._base.close()

    def demand_bytes(self) -> None:
        """Try whether the prefix carries every byte and argument, and the end of the input.

        Raises PrefixFailed, or CommandMissing where exit status 127 says that there is nothing to start.
        """
        with contextlib.closing(self.start(_ECHO)) as stream:
            echo = _echo(stream, time.monotonic() + _OPEN_S)
            if not echo.is_whole and isinstance(stream, KillableStream):
                stream.kill()  # with a terminal between, it would never see the end of its input
        if echo.is_whole:
            return
        if echo.exit_status == _NOT_FOUND and not echo.stdout:
            program = self._prefix.words[0]
            raise CommandMissing(self.name, f"{program} or what it starts was not found: {echo.said}")
        problem, fix = echo.problem()
        shown = one_line(shlex.join(self._prefix.words))
        raise PrefixFailed(self.name, f"`{shown}` {problem}", fix)


def read_prefix(via: Via, host: str) -> Prefix:
    """Return the prefix of a `via:` whose words need nothing of the host: a command, kubectl."""
    if via.kind == COMMAND:
        # {command} stays: only the name is filled in, in words that a user has written or confirmed
        return Prefix(tuple(fill_places(word, host, "{command}") for word in via.words))
    options = (f"--{name}={fill_places(value, host)}" for name, value in via.options)
    return Prefix(("kubectl", "exec", "-i", *options, fill_places(via.name, host), "--"))


@dataclass(frozen=True, slots=True)
class _Echo:
    """What came back of every byte and of one argument."""

    stdout: bytes
    stderr: bytes
    exit_status: int | None  # None: it had not ended

    @property
    def is_whole(self) -> bool:
        """Whether all came back unchanged; a login shell may have said something before."""
        return _SENT + _ARGUMENT in self.stdout

    @property
    def is_wrong(self) -> bool:
        """Whether it has started to come back, and is not what was sent."""
        at = self.stdout.find(_MARK)
        return at >= 0 and not (_SENT + _ARGUMENT).startswith(self.stdout[at : at + len(_SENT + _ARGUMENT)])

    @property
    def said(self) -> str:
        """The last words of the command."""
        return _last(self.stderr) or _last(self.stdout) or "it said nothing"

    def problem(self) -> tuple[str, str]:
        """Return what is wrong, and what helps."""
        if _SENT in self.stdout and self.exit_status is None and not self.is_wrong:
            return "does not pass the end of the input on", "gpulaunch cannot use it"
        if _SENT in self.stdout:
            fix = 'put "{command}" where the command goes, as one word: it is quoted for that shell'
            return "hands its words to a shell, which changes them", fix
        if _MARK in self.stdout:
            fix = (
                "it may use a pseudo terminal: leave out `-t` or `--tty` (`--pty` of srun); for ssh add `-T`"
            )
            return "changes the bytes that it carries", fix
        if self.stdout == _ARGUMENT:
            return "passes no input on to what it starts", "add the option for it: `-i` of docker and kubectl"
        if self.exit_status is None:
            return f"started nothing within {_OPEN_S:g} s: {self.said}", ""
        how = f"exit status {self.exit_status}" if self.exit_status >= 0 else f"signal {-self.exit_status}"
        return f"ended before it started anything ({how}): {self.said}", ""


def _echo(stream: Stream, deadline: float) -> _Echo:
    """Send the bytes, and read until all are back, one is wrong, or the command has ended."""
    _try_to_send(stream, _FIRST)
    left = _SENT[len(_FIRST) :]
    out, err = b"", b""
    while time.monotonic() < deadline and len(out) < _MOST_NOISE:
        data = stream.read(min(_STDERR_TURN_S, max(0.0, deadline - time.monotonic())))
        err = (err + stream.read_stderr())[-_MOST_NOISE:]
        out += data or b""
        seen = _Echo(out, err, None)
        if seen.is_whole or seen.is_wrong:
            return seen
        if left and _FIRST in out:
            _try_to_send(stream, left)
            left = b""
            stream.close_stdin()
        if data == b"":
            break
    status = stream.wait(_LAST_S)
    return _Echo(out, err + stream.read_stderr(), status)


def _try_to_send(stream: Stream, data: bytes) -> None:
    """Send to a command that may have ended: its status and stderr say why then."""
    with contextlib.suppress(HostError):
        stream.write(data)


def _last(output: bytes) -> str:
    lines = [line.strip() for line in sanitize(output[-4096:]).splitlines() if line.strip()]
    plain = [line for line in lines if not _OWN_LOG.match(line)]
    return one_line(" | ".join((plain or lines)[-2:]), _STDERR_SHOWN)
