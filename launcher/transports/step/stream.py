"""A program in a task of a step, as a stream."""

import select
import threading
import time
from collections.abc import Callable

from launcher import safe_json
from launcher.errors import ConnectionLost, ProgramNotStarted

WINDOW = 1 << 20  # bytes of input that a program has not read yet, at most
PART = 1 << 19
"""Bytes of input in one message, at most. What is written to a stream is always cut at the same places, so
that the parts for one node are those for the others: tasks keep them, and each travels once."""
GRANT = 1 << 18  # bytes taken after which the task hears that there is room for more
_CHUNK = 1 << 16
_STALLED_S = 60.0
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126
_ENOENT = 2


class StepStream:
    """See `base.Stream` for the contract."""

    def __init__(
        self,
        node: str,
        send: Callable[..., None],
        send_input: Callable[[bytes], None],
        forget: Callable[[], None],
    ) -> None:
        """`send` says a verb and its words to the task, `send_input` raises ConnectionLost."""
        self.host = node
        self._send, self._send_input, self._forget = send, send_input, forget
        self._news = threading.Condition()
        self._out = bytearray()
        self._err = bytearray()
        self._started = self._out_ended = self._eof_sent = self._closed = False
        self._status: int | None = None
        self._failed: tuple[int, str] | None = None
        self._lost = ""
        self._untaken_input = 0
        self._taken = 0

    def await_start(self, program: str, timeout_s: float) -> None:
        """Wait until the program runs. Raises ProgramNotStarted, ConnectionLost or HostError."""
        with self._news:
            self._wait(lambda: self._started or self._failed is not None or bool(self._lost), timeout_s)
            if self._failed is not None:
                number, why = self._failed
                status = _NOT_FOUND if number == _ENOENT else _NOT_EXECUTABLE
                raise ProgramNotStarted(self.host, program, why, status)
            if not self._started:
                raise ConnectionLost(self.host, self._lost or f"{program} has not started in {timeout_s:g} s")

    def write(self, data: bytes) -> None:
        """Send to its stdin; raises HostError when it has ended, or reads no more."""
        for start in range(0, len(data), PART):
            part = bytes(data[start : start + PART])
            with self._news:
                room = self._wait(lambda: self._untaken_input <= WINDOW - PART or self._is_over(), _STALLED_S)
                if not room or self._is_over() or self._eof_sent:
                    raise ConnectionLost(self.host, self._lost or "the command takes no input")
                self._untaken_input += len(part)
            self._send_input(part)

    def can_write(self, data: bytes) -> bool:
        """Say whether `data` can be written without waiting for the command to read."""
        with self._news:
            return len(data) <= min(select.PIPE_BUF, WINDOW - self._untaken_input)

    def close_stdin(self) -> None:
        """Send EOF."""
        if not self._eof_sent:
            self._eof_sent = True
            self._send("eof")

    def read(self, timeout_s: float) -> bytes | None:
        """Return the next stdout bytes, b"" at the end, None when nothing came in time."""
        with self._news:
            if not self._wait(lambda: bool(self._out) or self._out_ended or self._is_over(), timeout_s):
                return None
            data = bytes(self._out[:_CHUNK])
            del self._out[: len(data)]
        self._grant(len(data))
        return data

    def read_stderr(self) -> bytes:
        """Return what stderr has held so far, without waiting."""
        with self._news:
            data = bytes(self._err)
            self._err.clear()
        self._grant(len(data))
        return data

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit status (negative: a signal), None while running. Raises ConnectionLost."""
        with self._news:
            self._wait(self._is_over, timeout_s)
            if self._status is None and self._lost:
                raise ConnectionLost(self.host, self._lost)
            return self._status

    def close(self) -> None:
        """Drop the channel: the program sees EOF and SIGPIPE."""
        if self._closed:
            return
        self._closed = True
        if self._status is None:
            self._send("drop")
        self._forget()

    def kill(self) -> None:
        """Kill it, group and all."""
        self._send("kill")

    def take(self, kind: str, data: bytes) -> None:
        """Take a message of the task."""
        with self._news:
            if kind == "out":
                self._out += data
            elif kind == "err":
                self._err += data
            elif kind == "taken":
                self._untaken_input -= int(data)
            elif kind == "started":
                self._started = True
            elif kind == "closed":
                self._out_ended = True
            elif kind == "exit":
                self._status, self._out_ended = int(data), True
            elif kind == "failed":
                number, why = safe_json.loads(data)
                self._failed = int(number), str(why)
                self._lost = f"cannot be started: {why}"
            self._news.notify_all()

    def lose(self, why: str) -> None:
        """Hear that the task is gone."""
        with self._news:
            if self._status is None:
                self._lost = self._lost or why
            self._news.notify_all()

    def _is_over(self) -> bool:
        return self._status is not None or bool(self._lost)

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for news until it is so; return whether it is."""
        deadline = time.monotonic() + max(0.0, timeout_s)
        while not done():
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self._news.wait(left_s):
                return done()
        return True

    def _grant(self, count: int) -> None:
        """Let the task send more once enough was taken."""
        with self._news:
            self._taken += count
            if self._taken < GRANT or self._is_over():
                return
            taken, self._taken = self._taken, 0
        self._send("more", taken)
