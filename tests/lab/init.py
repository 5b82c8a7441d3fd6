"""PID 1 of a simulated host: reaps every orphan at once, and starts what the tests ask for.

The tests speak to it over a unix socket: one JSON request with the three standard descriptors attached, one
JSON line back with the process id, one more when the process has ended. What it starts has it for a parent,
as a service of a real host has.
"""

import contextlib
import json
import os
import pwd
import selectors
import signal
import socket
import traceback
from collections.abc import Callable
from typing import Any, Never

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MAX_REQUEST = 1 << 20
REQUEST_TIMEOUT_S = 5.0

Request = dict[str, Any]
Handler = Callable[[Request], dict[str, Any]]


class Init:
    """Serves one listening socket and reaps until it is killed."""

    def __init__(self, listener: socket.socket, handlers: dict[str, Handler] | None = None) -> None:
        self.listener = listener
        self.handlers = handlers or {}
        self.selector = selectors.DefaultSelector()
        self.watchers: dict[int, socket.socket] = {}
        self.on_readable: dict[int, Callable[[], None]] = {}

    def watch(self, descriptor: int, action: Callable[[], None]) -> None:
        """Call action whenever descriptor is readable."""
        self.on_readable[descriptor] = action
        self.selector.register(descriptor, selectors.EVENT_READ)

    def serve(self) -> Never:
        """Run for ever."""
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.watch(self.listener.fileno(), self.accept)
        self.watch(wake_read, lambda: self.drain(wake_read))
        self.reap()
        while True:
            for key, _ in self.selector.select():
                self.on_readable[key.fd]()
            self.reap()

    def drain(self, descriptor: int) -> None:
        """Empty the wake-up pipe."""
        with contextlib.suppress(BlockingIOError):
            os.read(descriptor, 4096)

    def reap(self) -> None:
        """Collect every child that has ended, adopted ones included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            watcher = self.watchers.pop(pid, None)
            if watcher is None:
                continue
            with contextlib.suppress(OSError):
                watcher.sendall(json.dumps({"status": os.waitstatus_to_exitcode(status)}).encode() + b"\n")
            watcher.close()

    def accept(self) -> None:
        """Answer one request."""
        connection, _ = self.listener.accept()
        connection.settimeout(REQUEST_TIMEOUT_S)
        try:
            answer = self.answer(connection)
        except Exception:  # noqa: BLE001 - PID 1 must not die of a bad request; the caller is told
            answer = {"error": traceback.format_exc()}
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps(answer).encode() + b"\n")
        if "pid" in answer:
            self.watchers[answer["pid"]] = connection
        else:
            connection.close()

    def answer(self, connection: socket.socket) -> dict[str, Any]:
        """Read one request and carry it out."""
        data, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST, 3)
        try:
            while data and not data.endswith(b"\n"):
                data += connection.recv(MAX_REQUEST)
            if not data:
                return {}
            request: Request = json.loads(data)
            if request["op"] == "spawn":
                return {"pid": spawn(request, tuple(descriptors))}
            if request["op"] == "kill":
                os.kill(request["pid"], request["signal"])
                return {}
            return self.handlers[request["op"]](request)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def spawn(request: Request, descriptors: tuple[int, ...]) -> int:
    """Start request["argv"] as a session of its own and return its pid. Raises OSError."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            _become(request, descriptors, keep=write_end)
        except BaseException as error:  # noqa: BLE001 - the parent raises it again
            number = error.errno if isinstance(error, OSError) and error.errno else 0
            os.write(write_end, json.dumps([number, str(error)]).encode())
        os._exit(127)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        failure = pipe.read()
    if failure:
        number, text = json.loads(failure)
        raise OSError(number, text)
    return pid


def _become(request: Request, descriptors: tuple[int, ...], keep: int) -> Never:
    """Turn this fresh child into the program that was asked for."""
    account = pwd.getpwnam(request["user"])
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
    os.closerange(3, keep)
    os.closerange(keep + 1, 65536)
    os.umask(0o022)
    os.initgroups(account.pw_name, account.pw_gid)
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    os.chdir(request["cwd"] or account.pw_dir)
    environment = {
        "PATH": PATH,
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell,
        "LANG": "C.UTF-8",
        **request["env"],
    }
    os.execvpe(request["argv"][0], request["argv"], environment)
