"""A command run to its end, over whichever stream."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from launcher.errors import CommandTimedOut, ConnectionLost, HostError, OutputTooLarge, ProgramNotStarted
from launcher.transports.base import CommandResult, Stream

_STDERR_TURN_S = 0.25
"""While stdout is silent, stderr is drained this often."""


@runtime_checkable
class KillableStream(Stream, Protocol):
    """A stream whose command can be ended with all that it started."""

    def kill(self) -> None:
        """End it and the processes it started."""


def run_killable(
    start: Callable[[tuple[str, ...]], KillableStream],
    words: tuple[str, ...],
    host: str,
    stdin: bytes,
    *,
    timeout_s: float,
    max_output: int,
) -> CommandResult:
    """Start a command and run it to its end; what still runs at the deadline is killed, group and all.

    A program that cannot be started answers as a shell does. Raises as `run_to_completion` does.
    """
    deadline = time.monotonic() + timeout_s
    try:
        stream = start(words)
    except ProgramNotStarted as failure:
        return CommandResult(failure.status, b"", f"{words[0]}: {failure.why}\n".encode())
    try:
        return run_to_completion(
            stream, host, stdin, deadline=deadline, timeout_s=timeout_s, max_output=max_output
        )
    except HostError:
        stream.kill()
        raise
    finally:
        stream.close()


def run_to_completion(
    stream: Stream, host: str, stdin: bytes, *, deadline: float, timeout_s: float, max_output: int
) -> CommandResult:
    """Feed, drain both outputs side by side, and wait for the status, all before the deadline.

    Raises CommandTimedOut, which names `timeout_s`, OutputTooLarge or ConnectionLost.
    """
    if stream.can_write(stdin):
        _feed(stream, stdin)
    else:
        # A command that writes before it has read everything would otherwise wait for us as we wait for it.
        threading.Thread(target=_feed, args=(stream, stdin), daemon=True).start()
    stdout, stderr = bytearray(), bytearray()
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise CommandTimedOut(host, f"a command did not end within {timeout_s:g} s")
        data = stream.read(min(_STDERR_TURN_S, left_s))
        stderr += stream.read_stderr()
        stdout += data or b""
        if len(stdout) > max_output or len(stderr) > max_output:
            raise OutputTooLarge(host, f"a command sent more than {max_output} bytes")
        if data == b"":
            break
    status = stream.wait(deadline - time.monotonic())
    if status is None:
        raise CommandTimedOut(host, f"a command did not end within {timeout_s:g} s")
    stderr += stream.read_stderr()
    return CommandResult(status, bytes(stdout), bytes(stderr))


def _feed(stream: Stream, data: bytes) -> None:
    """Send all input; a command that ends without reading it is judged by its status, not by this."""
    with contextlib.suppress(ConnectionLost):
        stream.write(data)
    stream.close_stdin()
