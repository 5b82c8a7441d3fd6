"""Commands of tests as forks of one process that has imported them: half of what a short command takes.

A fork has its own directory, environment, streams, signals and end, as any process. Its /proc/PID/environ and
cmdline are the server's. Tests of the interpreter's start, of a locale or of a terminal start an interpreter.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, Self, TextIO

ROOT = Path(__file__).parents[1]
OF_INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_")
"""Starts of variables that an interpreter, or what it is linked with, reads as it starts."""
ON_HOSTS = ("launcher.onhost.", "preflight.probes.")
FOR_OTHERS = ("PYTHONPATH", "LD_LIBRARY_PATH")  # a fork takes the one over; what a command starts heeds both
MOST_BYTES = 100_000  # of a request


class Command:
    """A command that was started, with what tests use of subprocess.Popen; its streams are text."""

    def __init__(self, pid: int, status: IO[str], stdout: TextIO, stderr: TextIO | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._await(0.0)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end; return the exit code. Raises subprocess.TimeoutExpired."""
        code = self._await(timeout_s)
        if code is None:
            raise subprocess.TimeoutExpired(f"command {self.pid}", timeout_s or 0.0)
        return code

    def _await(self, timeout_s: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout_s)[0]:
            with self._status:
                self.returncode = int(self._status.readline())
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal while it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        if self.stderr is not None:
            self.stderr.close()
        self.wait()


def run_module(
    module: str, words: Sequence[str], cwd: Path, env: Mapping[str, str], timeout_s: float
) -> "subprocess.CompletedProcess[str]":
    """Run `python -m MODULE WORDS` to its end, with nothing to read; return its code and what it printed.

    Raises subprocess.TimeoutExpired, when it has been killed.
    """
    argv = [sys.executable, "-m", module, *words]
    if not can_fork(env):
        return subprocess.run(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    with start_module(module, words, cwd, env, own_stderr=True) as command, ThreadPoolExecutor(2) as pool:
        printed = [pool.submit(stream.read) for stream in (command.stdout, command.stderr) if stream]
        try:
            code = command.wait(timeout_s)
        except subprocess.TimeoutExpired:
            command.kill()
            raise
        out, err = (each.result() for each in printed)
    return subprocess.CompletedProcess(argv, code, out, err)


def start_module(
    module: str, words: Sequence[str], cwd: Path, env: Mapping[str, str], *, own_stderr: bool = False
) -> Command:
    """Start `python -m MODULE WORDS` with nothing to read; stderr goes where stdout does unless `own_stderr`.

    `env` must be one that can_fork.
    """
    request = {"module": module, "words": list(words), "cwd": str(cwd), "env": dict(env)}
    (status, status_end), (out, out_end) = os.pipe(), os.pipe()
    err, err_end = os.pipe() if own_stderr else (-1, os.dup(out_end))
    nothing = os.open(os.devnull, os.O_RDONLY)
    ends = [nothing, out_end, err_end, status_end]
    with _LOCK:
        socket.send_fds(_server(), [json.dumps(request).encode()], ends)
    for end in ends:
        os.close(end)
    stream = os.fdopen(status)
    stdout, stderr = os.fdopen(out), os.fdopen(err) if own_stderr else None
    return Command(int(stream.readline()), stream, stdout, stderr)


def can_fork(env: Mapping[str, str]) -> bool:
    """Return whether an interpreter would start in this environment as it does in that of the tests."""
    return _settings(env) == _settings(os.environ)


def _settings(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in env.items()
        if name.startswith(OF_INTERPRETER) and name not in FOR_OTHERS
    }


_LOCK = threading.Lock()


@functools.cache
def _server() -> socket.socket:
    """Start the server of this process of the tests; it ends with it."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(its.fileno())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[its.fileno()],
        )
    atexit.register(_end, ours, process)
    return ours


def _end(connection: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    connection.close()
    process.kill()  # a fork of the tests may hold the connection
    process.wait()


# What follows runs in the server.


def _list_modules() -> Iterator[str]:
    for wing in ("launcher", "preflight"):
        for path in sorted((ROOT / wing).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            if not name.startswith(ON_HOSTS) and path.name != "__main__.py":
                yield name
    yield "tests.lab.fault_client"


def serve(connection: socket.socket) -> None:
    """Fork what the tests want run until they end; return in each fork."""
    for name in _list_modules():
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait
    while True:
        data, fds, _, _ = socket.recv_fds(connection, MOST_BYTES, 4)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            connection.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _start(json.loads(data), fds)
        for fd in fds:
            os.close(fd)


def _start(request: dict[str, Any], fds: Sequence[int]) -> None:
    """Fork once more: return in the command, while this process waits for its end and says it."""
    status = fds[-1]
    pid = os.fork()
    if pid:
        for number in (0, 1, 2, *fds[:-1]):
            os.close(number)
        os.write(status, b"%d\n" % pid)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.write(status, b"%d\n" % code)
        os._exit(0)
    for number, fd in enumerate(fds[:-1]):
        os.dup2(fd, number)
    for fd in fds:
        os.close(fd)
    _open_streams()
    os.chdir(request["cwd"])
    own = len([path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[: 1 + own] = [request["cwd"], *paths]
    sys.argv[:] = [request["module"], *request["words"]]


def _open_streams() -> None:
    """Open the standard streams again, as an interpreter does that starts with no terminal."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        stream = open(  # noqa: SIM115 - they stay open
            number,
            "w" if number else "r",
            buffering=1 if number == 2 else -1,
            encoding=old.encoding,
            errors=old.errors,
            closefd=False,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def main() -> None:
    """Serve; in a fork, run the module that it is to run, to the end of the interpreter."""
    serve(socket.socket(fileno=int(sys.argv[1])))
    module = sys.argv[0]
    del sys.modules[module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
