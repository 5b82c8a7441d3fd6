"""Starting programs on a host, or on the lab's switch, through its PID 1."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

CONTROL_TIMEOUT_S = 30.0


@dataclass(slots=True)
class Answers:
    """The lines that a PID 1 sends over one connection."""

    connection: socket.socket
    received: bytes = b""

    def line(self, timeout_s: float) -> bytes:
        """Return the next line, b"" when the far end is gone. Raises TimeoutError."""
        self.connection.settimeout(timeout_s)
        while b"\n" not in self.received:
            chunk = self.connection.recv(1 << 16)
            if not chunk:
                return b""
            self.received += chunk
        line, _, self.received = self.received.partition(b"\n")
        return line

    def close(self) -> None:
        """Hang up."""
        self.connection.close()


@dataclass(frozen=True, slots=True)
class Control:
    """The control socket of one PID 1."""

    out: Path
    name: str

    def connect(self) -> socket.socket:
        """Connect. Raises OSError when that PID 1 is gone."""
        directory = os.open(self.out / "control", os.O_PATH | os.O_DIRECTORY)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(CONTROL_TIMEOUT_S)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{self.name}.sock")
        except OSError:
            connection.close()
            raise
        finally:
            os.close(directory)
        return connection

    def peer_pid(self) -> int:
        """Return the pid of that PID 1 as this process sees it."""
        with self.connect() as connection:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    def ask(
        self, request: Mapping[str, Any], descriptors: Sequence[int] = ()
    ) -> tuple[Answers, dict[str, Any]]:
        """Send one request; return the open connection and its first answer. Raises RuntimeError."""
        answers = Answers(self.connect())
        try:
            data = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(answers.connection, [data], descriptors)
            if sent < len(data):  # a long argv does not fit the socket's buffer at once
                answers.connection.sendall(data[sent:])
            first = answers.line(CONTROL_TIMEOUT_S)
            answer = json.loads(first) if first else {"error": "its PID 1 ended"}
        except BaseException:
            answers.close()
            raise
        if "error" in answer:
            answers.close()
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answers, answer

    def tell(self, request: Mapping[str, Any]) -> None:
        """Send one request that has no longer answer. Raises RuntimeError when it failed."""
        self.ask(request)[0].close()

    def popen(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> "LabProcess":
        """Start argv in a session of its own; stdin is /dev/null, the rest pipes, unless given."""
        request = {"op": "spawn", "argv": list(argv), "user": user, "env": dict(env or {}), "cwd": cwd}
        pipes: list[IO[bytes] | None] = [None, None]
        given: list[int] = []
        to_close: list[int] = []
        if stdin is None:
            stdin = os.open("/dev/null", os.O_RDONLY)
            to_close.append(stdin)
        given.append(stdin)
        for position, descriptor in enumerate((stdout, stderr)):
            if descriptor is not None:
                given.append(descriptor)
                continue
            read_end, write_end = os.pipe()
            to_close.append(write_end)
            given.append(write_end)
            pipes[position] = os.fdopen(read_end, "rb", buffering=0)
        try:
            answers, answer = self.ask(request, given)
        except BaseException:
            for pipe in pipes:
                if pipe is not None:
                    pipe.close()
            raise
        finally:
            for descriptor in to_close:
                os.close(descriptor)
        return LabProcess(self, tuple(argv), int(answer["pid"]), answers, pipes[0], pipes[1])

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        input_text: str = "",
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run argv to its end. Raises RuntimeError on a failure if `check`, TimeoutExpired when late.

        Output goes to files, so a daemon that argv leaves behind does not keep this waiting.
        """
        with (
            tempfile.TemporaryFile() as stdin,
            tempfile.TemporaryFile() as stdout,
            tempfile.TemporaryFile() as stderr,
        ):
            stdin.write(input_text.encode())
            stdin.seek(0)
            files = (stdin.fileno(), stdout.fileno(), stderr.fileno())
            with self.popen(
                argv, user=user, env=env, cwd=cwd, stdin=files[0], stdout=files[1], stderr=files[2]
            ) as process:
                try:
                    status = process.wait(timeout_s)
                except TimeoutError:
                    raise subprocess.TimeoutExpired(list(argv), timeout_s) from None
            texts = []
            for file in (stdout, stderr):
                file.seek(0)
                texts.append(file.read().decode(errors="backslashreplace"))
        done = subprocess.CompletedProcess(list(argv), status, texts[0], texts[1])
        if check and status:
            raise RuntimeError(
                f"{' '.join(argv)} on {self.name}: exit {status}: {texts[1].strip() or texts[0].strip()}"
            )
        return done


@dataclass(slots=True)
class LabProcess:
    """A program started through a PID 1. `pid` is its number in that PID namespace."""

    control: Control
    argv: tuple[str, ...]
    pid: int
    answers: Answers
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None
    status: int | None = field(default=None)

    def wait(self, timeout_s: float = CONTROL_TIMEOUT_S) -> int:
        """Return the exit status, negative for a signal. Raises TimeoutError."""
        if self.status is not None:
            return self.status
        line = self.answers.line(timeout_s)
        self.answers.close()
        self.status = (
            int(json.loads(line)["status"]) if line else -signal.SIGKILL
        )  # its PID 1 is gone, so is it
        return self.status

    def poll(self) -> int | None:
        """Return the exit status if it has ended."""
        try:
            return self.wait(0.001)
        except TimeoutError:
            return None

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal; nothing happens when it has ended."""
        if self.poll() is None:
            with contextlib.suppress(RuntimeError, OSError):
                self.control.tell({"op": "kill", "pid": self.pid, "signal": int(number)})

    def read_line(self, timeout_s: float = CONTROL_TIMEOUT_S) -> str:
        """Return its next line of standard output. Raises TimeoutError, or EOFError with its stderr."""
        assert self.stdout is not None, "started with a stdout of the caller's"
        os.set_blocking(self.stdout.fileno(), False)
        deadline = time.monotonic() + timeout_s
        line = b""
        while not line.endswith(b"\n"):
            chunk = self.stdout.read(1)
            if chunk == b"":
                errors = self.stderr.read() if self.stderr is not None else b""
                raise EOFError(f"{self.argv} ended: {(line + (errors or b'')).decode(errors='replace')}")
            if chunk is None:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{self.argv} printed no line in {timeout_s} s")
                time.sleep(0.005)
                continue
            line += chunk
        return line.decode(errors="replace").rstrip("\n")

    def close(self) -> None:
        """Let go of its pipes and of its exit status."""
        for closable in (self.stdout, self.stderr, self.answers):
            if closable is not None:
                closable.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        with contextlib.suppress(TimeoutError):
            self.wait()
        self.close()
