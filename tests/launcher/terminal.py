"""gpulaunch at a real terminal on this machine, and runs of plain ranks here for it to meet."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from launcher.config.disconnect_options import DEFAULT_GRACE_S
from launcher.launch.signals import BOUNCE_S
from launcher.onhost.supervisor.node import make_node_name
from tests.command_server import run_module
from tests.launcher.run_plans import run_id

CHECKOUT = Path(__file__).parents[2]
WIDTH = 100
RUN = run_id("r-1")


def end_processes(home: Path) -> None:
    """End every process that was started with this home."""
    mark = f"HOME={home}".encode()
    for name in os.listdir("/proc"):  # noqa: PTH208 - procfs
        with suppress(OSError, ValueError):
            if mark in Path(f"/proc/{int(name)}/environ").read_bytes().split(b"\0"):
                os.kill(int(name), signal.SIGKILL)


class Home:
    """Somebody's home and working directory on this machine, with nothing in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runs = home / ".local" / "state" / "gpulaunch" / "runs" / make_node_name()
        home.mkdir(exist_ok=True)
        self.inventory = home / "hosts.yaml"
        self.inventory.write_text(json.dumps({"hosts": {"localhost": {"python": sys.executable}}}))
        self.env = {
            **os.environ,
            "HOME": str(home),
            "PYTHONPATH": str(CHECKOUT),
            "XDG_STATE_HOME": "",
            "TERM": "xterm",
            "NO_COLOR": "1",
        }

    def launch(
        self, script: str, run_id: str = RUN, *, detach: bool = True, grace_s: float = DEFAULT_GRACE_S
    ) -> str:
        """Run plain ranks here; return what was printed, with `detach` once nobody need follow."""
        config = self.home / f"{run_id}.json"
        document = {"inventory": str(self.inventory), "hosts": ["localhost"], "ranks": 1, "run_id": run_id}
        document |= {"script": script, "detach": detach, "claims": False, "quiet_s": 0.2}
        document["disconnect"] = ["continue", 600.0, grace_s]
        config.write_text(json.dumps(document))
        done = run_module("tests.lab.fault_client", [str(config)], self.home, self.env, 90.0)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def gpulaunch(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run a command without a terminal."""
        return run_module("launcher.cli", words, self.home, {**self.env, **env}, 90.0)

    def phase(self, run_id: str = RUN) -> str:
        """Return what state.json says of a run."""
        return str(json.loads((self.runs / run_id / "state.json").read_text())["phase"])

    def end_all(self) -> None:
        """Leave no process of this home's runs, whatever has failed."""
        end_processes(self.home)


class Terminal:
    """A command at a terminal: what stands on the screen, and keys pressed."""

    def __init__(self, home: Home, *words: str, hears_of_end: bool = True) -> None:
        """`hears_of_end`: SIGHUP comes when the terminal is closed, as from a shell that was not killed."""
        self.screen = b""
        self._pressed_at = 0.0
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            if not hears_of_end:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
            os.chdir(home.home)
            os.execve(sys.executable, [sys.executable, "-m", "launcher.cli", *words], home.env)
        termios.tcsetwinsize(self._terminal, (24, WIDTH))

    def until(self, text: str, times: int = 1, timeout_s: float = 60.0) -> None:
        """Wait until it stands on the screen."""
        self._wait(lambda: self.screen.decode(errors="replace").count(text) >= times, timeout_s)

    def press(self, keys: str) -> None:
        """Type; "\\x03" is Ctrl-C and "\\x04" the end of input, which the terminal itself turns into them.

        As of a person, no Ctrl-C follows another at once.
        """
        if keys == "\x03":
            time.sleep(max(0.0, self._pressed_at + 2 * BOUNCE_S - time.monotonic()))
            self._pressed_at = time.monotonic()
        os.write(self._terminal, keys.encode())

    def close(self) -> None:
        """Close the terminal, and nobody has it any more."""
        os.close(self._terminal)
        self._terminal = os.open(os.devnull, os.O_RDONLY)

    def end(self, timeout_s: float = 60.0) -> tuple[int, str]:
        """Wait for the end; return the exit code and the screen."""
        code: list[int] = []

        def ended() -> bool:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                code.append(os.waitstatus_to_exitcode(status))
            return bool(pid)

        try:
            self._wait(ended, timeout_s)
        except AssertionError:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            raise
        self._read()
        os.close(self._terminal)
        return code[0], self.screen.decode(errors="replace").replace("\r\n", "\n")

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < deadline, self.screen.decode(errors="replace")
            self._read()

    def _read(self) -> None:
        with suppress(OSError):  # the far end has gone
            while select.select([self._terminal], [], [], 0.02)[0]:
                data = os.read(self._terminal, 65536)
                if not data:
                    return
                self.screen += data
