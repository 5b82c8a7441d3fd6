"""A command run to its end, over whichever stream."""

import contextlib
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Protocol, Unpack, runtime_checkable

from launcher.errors import CommandTimedOut, ConnectionLost, HostError, OutputTooLarge, ProgramNotStarted
from launcher.local.fanout_places import PROGRAM, release_place
from launcher.transports.base import Closing, CommandResult, RunOptions, Stream
from preflight.checks.message_text import quote_path

_STDERR_TURN_S = 0.25  # while stdout is silent, stderr is drained this often
RUN_S = 60.0
HELD_OPEN_S = 5.0
"""For so long more output of a command that has ended is waited for: what it, or a start-up file of the login
shell, has left running in the background may hold the output open for good."""


@runtime_checkable
class KillableStream(Stream, Protocol):
    """A stream whose command can be ended with all that it started."""

    def kill(self) -> None:
        """End it and the processes it started."""


class KillableConnection(Closing):
    """A host whose commands can be ended with all that they started; see `base.Connection`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def command_line(self, argv: Iterable[str]) -> str:
        """Return the words themselves; see the contract."""
        return " ".join(map(quote_path, argv))

    def run(self, argv: Iterable[str], **options: Unpack[RunOptions]) -> CommandResult:
        """Run to the end; the group dies at the deadline, and what cannot start answers as a shell does."""
        argv = tuple(argv)
        try:
            stream = self.start(argv)
        except ProgramNotStarted as failure:
            return CommandResult(failure.status, b"", f"{argv[0]}: {failure.why}\n".encode())
        try:
            return run_to_completion(stream, self.name, **options)
        except HostError:
            stream.kill()
            raise
        finally:
            stream.close()

    @abstractmethod
    def start(self, argv: Iterable[str]) -> KillableStream:
        """Start in a session of its own and stream."""

    def close(self) -> None:
        """Nothing of its own is held open."""


def run_to_completion(
    stream: Stream,
    host: str,
    *,
    stdin: bytes = b"",
    timeout_s: float = RUN_S,
    max_output: int = 64 << 20,
    is_whole: Callable[[bytes], bool] | None = None,
    held_open_s: float = HELD_OPEN_S,
) -> CommandResult:
    """Feed, drain and wait within `timeout_s`. Raises CommandTimedOut, OutputTooLarge or ConnectionLost."""
    deadline = time.monotonic() + timeout_s
    if stream.can_write(stdin):
        _feed(stream, stdin)
    else:
        # A command that writes before it has read everything would otherwise wait for us as we wait for it.
        threading.Thread(target=_feed, args=(stream, stdin), daemon=True).start()
    stdout, stderr = bytearray(), bytearray()
    silent_since: float | None = None  # after the command's end
    with release_place(PROGRAM) as wait:
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise explain_timeout(host, timeout_s)
            data = stream.read(min(_STDERR_TURN_S, left_s))
            stderr += stream.read_stderr()
            stdout += data or b""
            if len(stdout) > max_output or len(stderr) > max_output:
                fix = "`ssh HOST true` should print nothing: does a start-up file print without end?"
                raise OutputTooLarge(host, f"a command sent more than {max_output} bytes", fix)
            if data == b"":
                break
            if data or stream.wait(0.0) is None:
                silent_since = None
            elif is_whole is not None and is_whole(bytes(stdout)):
                break
            elif silent_since is None:
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > held_open_s:
                break
        status = stream.wait(deadline - time.monotonic())
        if status is None:
            raise explain_timeout(host, timeout_s)
        wait.note_answer()
    stderr += stream.read_stderr()
    return CommandResult(status, bytes(stdout), bytes(stderr))


def explain_timeout(host: str, timeout_s: float) -> CommandTimedOut:
    """Return the error of a command that has used up its time."""
    return CommandTimedOut(host, f"a command did not end within {timeout_s:g} s")


def _feed(stream: Stream, data: bytes) -> None:
    """Send all input; a command that ends without reading it is judged by its status, not by this."""
    with contextlib.suppress(ConnectionLost):
        stream.write(data)
    stream.close_stdin()
