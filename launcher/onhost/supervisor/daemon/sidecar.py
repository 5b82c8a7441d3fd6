"""Programs of the run directory that run beside the supervisor, in its Python: gauge.py and stacks.py."""

import os
import signal
import sys

from ...exit_status import describe_exit_code
from ..processes import read_start_ticks, run_markers, send_signal
from .supervised_run import SupervisedRun


class Sidecar:
    """Child process whose failure never affects the run."""

    def __init__(self, run: SupervisedRun, name: str, role: str) -> None:
        self._run = run
        self._name = name
        self._role = role
        self.pid = self._ticks = 0

    def is_there(self) -> bool:
        """Return whether the plan has sent the program."""
        return self._run.has(self._name)

    def start(self, stdin: int) -> None:
        """Start the program."""
        markers = run_markers(self._run.spec["run_id"], self._run.dir)
        env = {**os.environ, **markers, "CUDA_VISIBLE_DEVICES": ""}
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-ISE", self._run.path(self._name), self._run.dir],
                env,
                file_actions=[(os.POSIX_SPAWN_DUP2, stdin, 0)],
                setsigdef=(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE),
            )
        except (OSError, ValueError) as error:
            self._run.emit_failure("the attempt to " + self._role, error)
            return
        self._ticks = read_start_ticks(self.pid)

    def kill(self) -> None:
        """Kill the process, even if it hangs in a driver; a process in that state is not waited for."""
        send_signal(self.pid, self._ticks, signal.SIGKILL)

    def handle_child_end(self, pid: int, code: int, *, as_it_should: bool) -> None:
        """Handle the exit of a child, which may be this one."""
        if pid != self.pid:
            return
        self.pid = self._ticks = 0
        if not as_it_should:
            error = "it %s; supervisor.log may say why" % describe_exit_code(code)
            self._run.emit_failure("the attempt to " + self._role, error)


def start_gauge(gauge: Sidecar) -> None:
    """Start what measures usage, if the plan has sent it; it exits with its stdin."""
    if gauge.is_there():
        theirs, _ = os.pipe2(os.O_CLOEXEC)  # the other end closes with the supervisor
        gauge.start(theirs)
        os.close(theirs)
