"""Running the host's own programs, which may hang. Imports nothing of ours: the supervisor has it too."""

import errno
import os
import select
import signal
import time
from typing import NamedTuple

_TURN_S = 0.002
_MORE_FOLDERS = ":/usr/sbin:/sbin:/usr/lib/wsl/lib"


class ToolOutput(NamedTuple):
    """A command's end; status None: given up at its deadline."""

    status: int | None
    text: str


def run_command(argv: list[str], timeout_s: float) -> ToolOutput:
    """Run a program of the host and return its output; a program that hangs is killed and not waited for.

    With it goes what it has started: nvidia-smi and the like are wrapped by scripts.

    Raises FileNotFoundError where there is no such program. subprocess is avoided: it waits after a kill.
    """
    program = _program(argv[0])
    read_fd, write_fd = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, write_fd, 1),
        (os.POSIX_SPAWN_DUP2, write_fd, 2),
    ]
    environ = {**os.environ, "LC_ALL": "C"}
    pid = os.posix_spawn(program, argv, environ, file_actions=actions, setpgroup=0)
    os.close(write_fd)
    deadline = time.monotonic() + timeout_s
    data, is_whole = _drain(read_fd, deadline)
    os.close(read_fd)
    text = data.decode("utf-8", "replace")
    status = _wait(pid, deadline) if is_whole else None
    if status is None:
        os.killpg(pid, signal.SIGKILL)
        return ToolOutput(None, text)
    return ToolOutput(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -1, text)


def _drain(fd: int, deadline: float) -> tuple[bytearray, bool]:
    data = bytearray()
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or len(data) > 64 << 20:
            return data, False
        if not poller.poll(left * 1000 + 1):
            continue
        part = os.read(fd, 1 << 20)
        if not part:
            return data, True
        data += part


def _wait(pid: int, deadline: float) -> int | None:
    """Return how a program ended; None: it has closed its output and lives, or its end hangs in a driver."""
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > deadline:
            return None
        time.sleep(_TURN_S)


def _program(name: str) -> str:
    for folder in (os.environ.get("PATH", os.defpath) + _MORE_FOLDERS).split(":"):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(errno.ENOENT, "no such program", name)
