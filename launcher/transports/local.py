"""The local transport: this machine by subprocess, under the same contract as SSH."""

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from typing import IO

from launcher.errors import ConnectionLost, HostError, ProgramNotStarted
from launcher.local.descriptors import raise_if_exhausted
from launcher.local.home import expand_home
from launcher.transports.base import Endpoint
from launcher.transports.command import KillableConnection

_CHUNK = 1 << 16
_STDERR_HELD = 2 << 20  # what stderr may hold unread before its writer waits: an SSH channel's window
_FULL_TURN_S = 0.02
_STALLED_S = 60.0
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # a shell's answer where exec fails: both transports agree


class LocalConnection(KillableConnection):
    """The local machine; see `base.Connection` for the contract."""

    def __init__(self, endpoint: Endpoint, env: Mapping[str, str] | None = None) -> None:
        super().__init__(endpoint.name)
        self._env = env

    def start(self, argv: Iterable[str]) -> "LocalStream":
        """Start in a session of its own and stream."""
        program, *rest = argv
        words = (str(expand_home(program)) if program.startswith("~/") else program, *rest)
        try:
            process = subprocess.Popen(
                [word.encode("utf-8", "surrogateescape") for word in words],  # in any locale, as over SSH
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env=self._env,
            )
        except ValueError:
            raise HostError(self.name, "an argument holds a NUL byte, which no program can receive") from None
        except OSError as failure:
            raise_if_exhausted(failure)
            status = _NOT_FOUND if isinstance(failure, FileNotFoundError) else _NOT_EXECUTABLE
            raise ProgramNotStarted(
                self.name, words[0], failure.strerror or "cannot be started", status
            ) from None
        return LocalStream(self.name, process)


class LocalStream:
    """A running subprocess; see `base.Stream` for the contract."""

    def __init__(self, host: str, process: subprocess.Popen[bytes]) -> None:
        self.host = host
        self._process = process
        pipes = map(_pipe, (process.stdin, process.stdout, process.stderr))
        self._stdin, self._stdout, self._stderr = pipes
        self._held = bytearray()
        self._lock = threading.Lock()  # held and stderr: read() and read_stderr() may be two threads
        self._write_lock = threading.Lock()
        for pipe in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(pipe.fileno(), False)

    def write(self, data: bytes) -> None:
        """Send to its stdin; raises HostError when it has closed it or reads no more."""
        left = memoryview(data)
        while left:
            try:
                if self._stdin.closed or not _poll((self._stdin,), select.POLLOUT, _STALLED_S):
                    raise ConnectionLost(self.host, "the command takes no input")
                with self._write_lock:
                    left = left[os.write(self._stdin.fileno(), left[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except (OSError, ValueError) as failure:
                raise ConnectionLost(self.host, f"the command's input was closed: {failure}") from None

    def can_write(self, data: bytes) -> bool:
        """Say whether `data` can be written without waiting for the command to read."""
        return len(data) <= select.PIPE_BUF and bool(_poll((self._stdin,), select.POLLOUT, 0.0))

    def close_stdin(self) -> None:
        """Send EOF."""
        with self._write_lock, contextlib.suppress(OSError):
            self._stdin.close()

    def read(self, timeout_s: float) -> bytes | None:
        """Return the next stdout bytes, b"" at the end, None when nothing came in time."""
        deadline = time.monotonic() + max(0.0, timeout_s)
        while True:
            if len(self._held) >= _STDERR_HELD:  # its writer waits, so the caller should take it soon
                deadline = min(deadline, time.monotonic() + _FULL_TURN_S)
            ready = self._await_output(deadline)
            if self._stderr in ready:
                self._hold_stderr()
            if self._stdout in ready:
                with contextlib.suppress(BlockingIOError):
                    return os.read(self._stdout.fileno(), _CHUNK)
            if not ready and time.monotonic() >= deadline:
                return None

    def read_stderr(self) -> bytes:
        """Return what stderr has held so far, without waiting."""
        self._hold_stderr()
        with self._lock:
            held = bytes(self._held)
            self._held.clear()
        return held

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit status (negative: ended by that signal), None if still running."""
        try:
            return self._process.wait(max(0.0, timeout_s))
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> None:
        """Drop its pipes: it sees EOF or SIGPIPE. It is reaped whenever it ends."""
        self.close_stdin()
        with self._lock:
            self._stdout.close()
            self._stderr.close()
        if self._process.poll() is None:
            threading.Thread(target=self._process.wait, daemon=True).start()

    def kill(self) -> None:
        """End it and the processes it started in its session's first group."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _await_output(self, deadline: float) -> list[IO[bytes]]:
        takes_more = not self._stderr.closed and len(self._held) < _STDERR_HELD
        pipes = (self._stdout, self._stderr) if takes_more else (self._stdout,)
        return _poll(pipes, select.POLLIN, deadline - time.monotonic())

    def _hold_stderr(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):
            while not self._stderr.closed and len(self._held) < _STDERR_HELD:
                data = os.read(self._stderr.fileno(), _CHUNK)
                if not data:
                    self._stderr.close()
                self._held += data


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise AssertionError("Popen was given PIPE")
    return pipe


def _poll(pipes: Iterable[IO[bytes]], event: int, timeout_s: float) -> list[IO[bytes]]:
    """Return the pipes that are ready, or whose other end is gone, once there is one or the time is over."""
    poller = select.poll()  # a system call for each look; a selector makes four
    watched = {pipe.fileno(): pipe for pipe in pipes}
    for fd in watched:
        poller.register(fd, event)
    return [watched[fd] for fd, _ in poller.poll(1000 * max(0.0, timeout_s))]
