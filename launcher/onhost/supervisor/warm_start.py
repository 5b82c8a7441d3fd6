"""Early start of one node of a run, before its plan is known: a supervisor waits, an interpreter imports.

It is streamed in place of main.py, with the same modules beside it. `client side -> guardian -> supervisor
-> interpreter` are forked at once. The interpreter imports the engine's launcher, which takes longer than the
whole preflight, and does nothing else: it sees no GPU, and there is no run directory yet. With the plan each
of them continues in its role (daemon/); without one (a refused preflight, Ctrl-C, a client that is
gone) each sees the end of its pipe and exits. Standard library, Python >= 3.9.

Few modules are imported before the fork, because they delay the interpreter. The rest is compiled once, by
the client side while the interpreter imports, and goes to the others as code with the plan.
"""

from __future__ import annotations

import contextlib
import json
import marshal
import os
import signal
import socket
import sys
from typing import Any

from .environment import drop_variables, run_markers
from .files import write_all
from .processes import PR_SET_PDEATHSIG, prctl
from .protocol import read_message, request_of, run_handler

# Not read during import, so the plan may still set them; ranks are new processes and get all of them.
LATE_ENV = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
        "OMP_NUM_THREADS",
        "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME",
        "ACCELERATE_USE_CPU",
        "ACCELERATE_MIXED_PRECISION",
        "PET_RDZV_ID",
    }
)
LATE_PREFIX = "GPULAUNCH_"

# `python -m MODULE` in two halves. Output of the import goes to the log.
INTERPRETER = """\
import json, os, sys
if sys.path and sys.path[0] == "":
    sys.path[0] = os.getcwd()
failed = ""
try:
    import importlib
    launch = importlib.import_module(sys.argv[3])
except BaseException:
    import traceback
    failed = traceback.format_exc()
data = b""
while True:
    part = os.read(int(sys.argv[1]), 65536)
    if not part:
        break
    data += part
if not data:
    os._exit(0)
os.close(int(sys.argv[1]))
order = json.loads(data)
sys.stdout.flush()
sys.stderr.flush()
said = os.pread(1, 1 << 20, 0)
log = os.open(order["log"], os.O_WRONLY | os.O_APPEND)
os.dup2(log, 1)
os.dup2(log, 2)
os.close(log)
os.write(1, said)
os.environ.clear()
os.environ.update(order["env"])
if failed:
    sys.stderr.write(failed)
    sys.exit(1)
sys.argv[:] = [launch.__file__, *order["argv"]]
del data, part, order, said, log, failed
launch.main()
"""


class WarmStart:
    """Handles of the waiting processes on each other; each process uses its own part."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.code = b""  # of every module that was imported before the plan arrived
        self.orders = -1  # the client side's end of the pipe to the guardian
        self.ready = -1
        self.link: Any = None  # the guardian's and the supervisor's ends of a socket pair
        self.supervisor_pid = 0
        self.interpreter_pid = 0
        self.interpreter_in = -1
        self.env: dict[str, str] = {}

    # the client side

    def fork(self) -> None:
        """Fork guardian, supervisor and interpreter."""
        orders, self.orders = os.pipe()
        self.ready, done = os.pipe()
        if os.fork() == 0:
            try:
                os.close(self.orders)
                os.close(self.ready)
                self._be_guardian(orders, done)
            finally:
                os._exit(1)
        os.close(orders)
        os.close(done)

    def start(self, spec: dict[str, Any], run_dir: str) -> int:
        """Send the plan; return the descriptor on which the supervisor's first state arrives."""
        with contextlib.suppress(OSError):  # the guardian was killed: its missing answer shows that, too
            write_all(self.orders, pack([marshal.dumps(codes()), json.dumps([spec, run_dir]).encode()]))
        os.close(self.orders)
        return self.ready

    # the guardian

    def _be_guardian(self, orders: int, done: int) -> None:
        os.setsid()
        mine, theirs = socket.socketpair()
        self.supervisor_pid = os.fork()
        if self.supervisor_pid == 0:
            try:
                mine.close()
                os.close(orders)
                self.link = theirs
                self._be_supervisor(done)
            finally:
                os._exit(1)
        theirs.close()
        self.link = mine
        parts = unpack(read_all(orders))
        if len(parts) != 2:
            mine.close()
            os.waitpid(self.supervisor_pid, 0)
            os._exit(0)
        self.code = parts[0]
        spec, run_dir = json.loads(parts[1])
        codes().update(marshal.loads(self.code))  # noqa: S302 - compiled by our own parent from our own program
        from .daemon.guardian import run_guardian

        run_guardian(spec, run_dir, done, self)

    def pass_on(self, message: list[Any], descriptors: list[int]) -> int:
        """Send the waiting supervisor its start order; return its pid.

        Descriptors keep the locks of claims.
        """
        head = len(descriptors).to_bytes(4, "little")
        socket.send_fds(self.link, [head], descriptors)
        self.link.sendall(pack([self.code, json.dumps(message).encode()]))
        self.link.close()
        return self.supervisor_pid

    # the supervisor

    def _be_supervisor(self, done: int) -> None:
        self._start_interpreter()
        head, descriptors, _, _ = socket.recv_fds(self.link, 4, 256)
        parts = unpack(read_all(self.link.fileno())) if len(head) == 4 else []
        if len(parts) != 2:
            self._drop_interpreter()
            os._exit(0)
        codes().update(marshal.loads(parts[0]))  # noqa: S302 - as the guardian's
        from .daemon.guardian import run_warm_supervisor

        run_warm_supervisor(json.loads(parts[1]), descriptors, done, self)

    def _start_interpreter(self) -> None:
        self.env = self._first_environment()
        reader, self.interpreter_in = os.pipe()
        failed, report = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._become_interpreter(reader)
            except BaseException:
                os.write(report, b"x")
            finally:
                os._exit(127)
        os.close(reader)
        os.close(report)
        self.interpreter_pid = pid
        if os.read(failed, 1):  # the real start will report the reason
            self._drop_interpreter()
        os.close(failed)

    def _become_interpreter(self, reader: int) -> None:
        parent = os.getppid()
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # without ctypes the end of its pipe ends it
        if os.getppid() != parent:
            os._exit(127)
        os.chdir(os.path.expanduser(self.request["cwd"] or "~"))
        null = os.open(os.devnull, os.O_RDONLY)
        said = os.memfd_create("gpulaunch-said")
        for source, target in ((null, 0), (said, 1), (said, 2)):
            os.dup2(source, target)
        os.set_inheritable(reader, True)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        python = os.path.expanduser(self.request["python"])
        # The last arguments are for `ps`, and for tools that search for processes that launch ranks.
        os.execvpe(python, [python, "-c", INTERPRETER, str(reader), "-m", self.request["module"]], self.env)  # noqa: S606

    def _first_environment(self) -> dict[str, str]:
        env = drop_variables(dict(os.environ), self.request["unset"])
        env.update(self.request["env"])
        env.update(run_markers(self.request["run_id"]))
        env["CUDA_VISIBLE_DEVICES"] = ""  # until the plan selects GPUs
        return env

    def launch(self, argv: list[str], env: dict[str, str], cwd: str, log: str) -> int:
        """Continue the interpreter as the launcher; return its pid, 0 when it does not fit the plan."""
        if not self.interpreter_pid or not self._fits(argv, env, cwd) or not self._lives():
            self._drop_interpreter()
            return 0
        pid, self.interpreter_pid = self.interpreter_pid, 0
        write_all(self.interpreter_in, json.dumps({"argv": argv[3:], "env": env, "log": log}).encode())
        os.close(self.interpreter_in)
        return pid

    def _fits(self, argv: list[str], env: dict[str, str], cwd: str) -> bool:
        """Return whether all settings that an import reads are as the plan requires."""
        command = [os.path.expanduser(self.request["python"]), "-m", self.request["module"]]
        same_place = cwd == os.path.expanduser(self.request["cwd"] or "~")
        return argv[:3] == command and same_place and is_applicable(env) == is_applicable(self.env)

    def _lives(self) -> bool:
        try:
            return os.waitpid(self.interpreter_pid, os.WNOHANG)[0] == 0
        except ChildProcessError:
            return False

    def _drop_interpreter(self) -> None:
        pid, self.interpreter_pid = self.interpreter_pid, 0
        if not pid:
            return
        os.close(self.interpreter_in)
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)  # our own child, not reaped yet: its pid cannot be reused
            os.waitpid(pid, 0)


def is_applicable(env: dict[str, str]) -> dict[str, str]:
    """Return the variables that the plan cannot set later."""
    return {
        name: value
        for name, value in env.items()
        if name not in LATE_ENV and not name.startswith(LATE_PREFIX)
    }


def pack(parts: list[bytes]) -> bytes:
    """Return the parts with their lengths, so that a truncated message is not taken for a complete one."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def unpack(data: bytes) -> list[bytes]:
    """Return the parts; an empty list when the message is incomplete."""
    parts: list[bytes] = []
    while data:
        size = int.from_bytes(data[:8], "little")
        if len(data) < 8 + size:
            return []
        parts.append(data[8 : 8 + size])
        data = data[8 + size :]
    return parts


def read_all(fd: int) -> bytes:
    """Read until the end of the input."""
    parts: list[bytes] = []
    while True:
        part = os.read(fd, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)


def codes() -> dict[str, Any]:
    """Return the cache of code objects by module name; the importer uses its entries as they are."""
    code: dict[str, Any] = globals()["__spec__"].loader.codes
    return code


def main() -> int:
    """Start with the settings known before the plan; program and settings follow on stdin, the plan later."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    early = WarmStart(json.loads(request_of(read_message())))
    early.fork()
    from .requests.start import start

    order = read_message()
    if order is None:
        os.close(early.orders)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
        return 0
    spec = json.loads(order)["spec"]
    return run_handler(lambda: start(spec, early))


if __name__ == "__main__":
    sys.exit(main())
