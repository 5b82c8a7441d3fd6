"""A user of gpulaunch on this machine: a home with ssh files, an inventory, and the real command line."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.command_server import run_module
from tests.lab.hosts import Lab, LabHost

CHECKOUT = Path(__file__).parents[2]
TIMEOUT_S = 60.0

Entry = Mapping[str, object]


class Client:
    """Someone who knows the lab's host keys and holds its key, unless told otherwise."""

    def __init__(self, lab: Lab, home: Path, *, connect_timeout_s: int = 2) -> None:
        self.lab = lab
        self.home = home
        self.ssh = home / ".ssh"
        self.known_hosts = self.ssh / "known_hosts"
        self.inventory = home / "hosts.yaml"
        self.ssh.mkdir(parents=True, mode=0o700)
        self.known_hosts.write_bytes(lab.known_hosts.read_bytes())
        self.ssh_config(f"Host *\n    ConnectTimeout {connect_timeout_s}\n")
        self.write({host.name: {} for host in lab.hosts})

    def ssh_config(self, text: str) -> None:
        """Write ~/.ssh/config."""
        (self.ssh / "config").write_text(text)

    def write(self, entries: Mapping[str, Entry]) -> None:
        """Write hosts.yaml: the lab's hosts by name, and other names, each with what is said of it."""
        known = {host.name: self.entry(host) for host in self.lab.hosts}
        hosts = {name: {**known.get(name, {}), **entry} for name, entry in entries.items()}
        self.inventory.write_text(yaml.safe_dump({"hosts": hosts}))

    def entry(self, host: LabHost, **changes: object) -> dict[str, object]:
        """Return what hosts.yaml says of a host of the lab."""
        return {
            "address": host.address,
            "user": "root",
            "identity_file": str(self.lab.identity_file),
            "python": sys.executable,
            **changes,
        }

    @property
    def env(self) -> dict[str, str]:
        """The environment of the command line."""
        kept = {key: value for key, value in os.environ.items() if key != "SSH_AUTH_SOCK"}
        return {**kept, "HOME": str(self.home), "PYTHONPATH": str(CHECKOUT), "XDG_STATE_HOME": str(self.home)}

    def argv(self, *words: str) -> list[str]:
        """Return the command line of gpulaunch with this user's inventory."""
        command, *rest = words
        return [sys.executable, "-m", "launcher.cli", command, "-i", str(self.inventory), *rest]

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start gpulaunch without a terminal."""
        return subprocess.Popen(
            self.argv(*words),
            env=self.env,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str, timeout_s: float = TIMEOUT_S) -> "subprocess.CompletedProcess[bytes]":
        """Run gpulaunch without a terminal to its end."""
        done = run_module("launcher.cli", self.argv(*words)[3:], self.home, self.env, timeout_s)
        return subprocess.CompletedProcess(words, done.returncode, done.stdout.encode(), done.stderr.encode())

    def preflight(self, *words: str) -> dict[str, Any]:
        """Run a preflight for CPU ranks with --json and return its document."""
        return document(self.run("preflight", *words, "--gpus", "none", "--json"))

    def at_terminal(self, answers: Sequence[str], *words: str) -> tuple[int, str]:
        """Run gpulaunch at a terminal and type an answer at each colon it stops at; exit code, screen."""
        pid, screen = pty.fork()
        if pid == 0:
            os.chdir(self.home)
            os.execve(sys.executable, self.argv(*words), self.env)
        try:
            return _converse(pid, screen, list(answers))
        finally:
            os.close(screen)


def document(done: "subprocess.CompletedProcess[bytes]") -> dict[str, Any]:
    """Return what --json printed; the exit code that it names is the one there was."""
    answer: dict[str, Any] = json.loads(done.stdout or b"{}")
    assert answer.get("exit_code") == done.returncode, done.stderr.decode(errors="replace")
    assert b"Traceback" not in done.stderr
    return answer


def finding(answer: Mapping[str, Any], host: str, code: str) -> dict[str, Any]:
    """Return the one finding of this code that is about a host."""
    every = {each["code"]: each for each in answer["findings"] if host in each["hosts"]}
    assert code in every, f"{host}: {sorted(every)}"
    found: dict[str, Any] = every[code]
    return found


def unusable(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return the code by host of all that could not be used."""
    return {
        host: each["code"]
        for each in answer["findings"]
        for host in each["hosts"]
        if each["code"].startswith("HOST")
    }


def _converse(pid: int, screen: int, answers: list[str]) -> tuple[int, str]:
    shown, unanswered = b"", 0
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        if time.monotonic() > deadline:
            os.kill(pid, 9)
        ready, _, _ = select.select([screen], [], [], 0.2)
        if not ready:
            continue
        try:
            data = os.read(screen, 1 << 16)
        except OSError:  # EIO: nobody has the terminal open any more
            data = b""
        if not data:
            break
        shown += data
        if answers and shown[unanswered:].rstrip(b" ").endswith(b":"):
            unanswered = len(shown)
            os.write(screen, answers.pop(0).encode() + b"\n")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode(errors="replace")
