"""gpulaunch itself, as a user starts it, against the lab's hosts."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests import torchless
from tests.command_server import Command, start_module
from tests.field_notes.ranks import LIGHT, shimmed
from tests.lab.hosts import Lab

CHECKOUT = Path(__file__).parents[2]
SCREEN_KEPT = 1 << 20
PATIENCE_S = 120.0  # a machine that runs other tests too may need a minute to start an interpreter


class Cli:
    """A user's home and working directory, and `gpulaunch run` in it."""

    def __init__(self, lab: Lab, home: Path) -> None:
        self.lab = lab
        self.home = home
        self.inventory = lab.inventory_path
        self.keys: dict[str, object] = {"env": shimmed(LIGHT)}
        self.started: list[Running] = []
        ssh = home / ".ssh"
        ssh.mkdir(parents=True)
        (ssh / "known_hosts").write_text(lab.known_hosts.read_text())

    def without_torch(self) -> None:
        """From now on ranks of the accelerate engine start without torch (tests/torchless)."""
        self.inventory = write_torchless_inventory(self.lab, self.home)
        self.keys = {"engine": "accelerate"}

    def write(self, script: str, **keys: object) -> None:
        """Write job.py, and a run config that sends it."""
        (self.home / "job.py").write_text(script)
        config: dict[str, object] = {
            "script": "job.py",
            "send_script": True,
            "gpus": "none",
            "precision": "no",
        }
        config |= {**self.keys, **keys}
        (self.home / "job.yaml").write_text(json.dumps(config))

    def start(self, hosts: str, *words: str) -> "Running":
        """Start `gpulaunch run` on these hosts."""
        return self.start_words(
            "run", "-c", "./job.yaml", "--hosts", hosts, "-i", str(self.inventory), *words
        )

    def attach(self, hosts: str) -> "Running":
        """Start `gpulaunch attach` to the last run on these hosts."""
        return self.start_words("attach", "last", "--hosts", hosts, "-i", str(self.inventory))

    def start_words(self, *words: str) -> "Running":
        """Start any command."""
        self.started.append(Running(start_module("launcher.cli", words, self.home, self._env())))
        return self.started[-1]

    def close(self) -> None:
        """End what a failed test has left."""
        failed = [running for running in self.started if running.process.poll() is None]
        for running in self.started:
            running.end(0.0)
        for host in self.lab.hosts if failed else ():  # without its client a run goes on
            for pid in host.strays():
                host.kill(pid)

    def run(self, hosts: str, *words: str, timeout_s: float = 90.0) -> tuple[int, str]:
        """Run to the end; return exit code and output."""
        return self.start(hosts, *words).end(timeout_s)

    def invoke(self, directory: Path, *words: str, timeout_s: float = 90.0) -> tuple[int, str]:
        """Run any command in a directory to its end; return exit code and output."""
        return Running(start_module("launcher.cli", words, directory, self._env())).end(timeout_s)

    def _env(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.home), "PYTHONPATH": str(CHECKOUT)}

    def outcome(self) -> dict[str, Any]:
        """Return what the last run left as its outcome."""
        newest = max((self.home / "gpulaunch-runs").iterdir(), key=lambda path: path.stat().st_mtime)
        document = json.loads((newest / "outcome.json").read_text())
        assert isinstance(document, dict)
        return document


def write_torchless_inventory(lab: Lab, home: Path) -> Path:
    """Write hosts.yaml of a lab whose accelerate engine starts ranks without torch; return its path."""
    data = yaml.safe_load(lab.inventory_path.read_text())
    for host in lab.hosts:
        place = host.put(f"/usr/local/bin/{torchless.NAME}", torchless.WRAPPER, mode=0o755)
        data["hosts"][host.name]["python"] = place
    path = home / "hosts.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


class Running:
    """A `gpulaunch run` that goes on."""

    def __init__(self, process: "subprocess.Popen[bytes] | Command", screen: Path | None = None) -> None:
        self.process = process
        self.output = b""
        self.peak_kib = 0  # the most memory that it was seen to have
        # What goes to a file is read from there: a test need not hold 200 MB because its client must not.
        printed = process.stdout.buffer if isinstance(process, Command) else process.stdout
        out = printed if screen is None else screen.open("rb")
        assert out is not None
        self._out = out
        self._kept_bytes = 0 if screen is None else SCREEN_KEPT
        os.set_blocking(out.fileno(), False)

    def until(self, done: Callable[[str], bool], timeout_s: float = PATIENCE_S) -> None:
        """Read on until the output is so."""
        deadline = time.monotonic() + timeout_s
        while not done(self._read()):
            assert time.monotonic() < deadline, self.output.decode(errors="replace")
            assert self.process.poll() is None or done(self._read()), self.output.decode(errors="replace")
            time.sleep(0.05)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the client with -9."""
        self.process.kill()

    def end(self, timeout_s: float = PATIENCE_S) -> tuple[int, str]:
        """Wait for the end; return exit code and output (of a screen in a file, its last part)."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read()
            self.peak_kib = max(self.peak_kib, memory_kib(self.process.pid))
            time.sleep(0.05)
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        if self._out.closed:
            return code, ""
        text = self._read()
        self._out.close()
        return code, text

    def _read(self) -> str:
        while data := self._out.read(1 << 20):
            self.output += data
            if self._kept_bytes:
                self.output = self.output[-self._kept_bytes :]
        return self.output.decode(errors="replace")


def memory_kib(pid: int) -> int:
    """Return the most memory that a process has had so far, 0 when it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
