"""A user's machine in the lab whose runs meet faults, and what must be true after each of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.lab.hosts import Lab, LabHost
from tests.lab.run_cli import CHECKOUT, Running
from tests.lab.survive_client import PORT

RUNS = "/root/.local/state/gpulaunch/runs"
LISTEN = "0A"  # st of /proc/net/tcp


class Laptop:
    """A home and a working directory, `survive_client` and gpulaunch's own commands in it."""

    def __init__(self, lab: Lab, home: Path) -> None:
        self.lab = lab
        self.home = home
        self.run_id = f"survive-{os.urandom(4).hex()}"
        self.started: list[Running] = []
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "known_hosts").write_text(lab.known_hosts.read_text())

    def launch(
        self, script: str, *, hosts: int = 2, ranks: int = 1, grace_s: float = 60.0, detach: bool = False
    ) -> Running:
        """Start a run of plain ranks."""
        config = self.home / "survive.json"
        names = [host.name for host in self.lab.hosts[:hosts]]
        document = {"inventory": str(self.lab.inventory_path), "hosts": names, "ranks": ranks}
        document |= {"run_id": self.run_id, "script": script, "grace_s": grace_s, "detach": detach}
        config.write_text(json.dumps(document))
        return self._start("tests.lab.survive_client", str(config))

    def start(self, command: str, *words: str) -> Running:
        """Start a command of gpulaunch."""
        return self._start("launcher.cli", command, "-i", str(self.lab.inventory_path), *words)

    def run(self, command: str, *words: str, timeout_s: float = 60.0) -> tuple[int, str]:
        """Run a command of gpulaunch to its end."""
        return self.start(command, *words).end(timeout_s)

    def _start(self, *words: str) -> Running:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=self.home,
            env={**os.environ, "HOME": str(self.home), "PYTHONPATH": str(CHECKOUT), "XDG_STATE_HOME": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.started.append(Running(process))
        return self.started[-1]

    def close(self) -> None:
        """End what a failed test has left here, and what runs on the hosts because of it."""
        for running in self.started:
            running.end(0.0)

    # what is true of a run

    def run_dir(self, host: LabHost) -> Path:
        """Return the run directory on a host, as this machine sees it."""
        return host.path(f"{RUNS}/{self.run_id}")

    def state(self, host: LabHost) -> dict[str, Any]:
        """Return state.json of a host."""
        document = json.loads((self.run_dir(host) / "state.json").read_text())
        assert isinstance(document, dict)
        return document

    def pid(self, host: LabHost, who: str) -> int:
        """Return the pid of "supervisor", "guardian" or "launcher" on a host, as the host numbers it."""
        return int(self.state(host)[who][0])

    def rank_pid(self, host: LabHost, rank: int) -> int:
        """Return the pid of a rank, as the host numbers it."""
        for event in self.events(host):
            if event["event"] == "rank" and event["rank"] == rank:
                return int(event["pid"])
        raise AssertionError(f"rank {rank} has not told its pid on {host.name}")

    def events(self, host: LabHost) -> Iterator[dict[str, Any]]:
        """Yield the events of a host."""
        for line in (self.run_dir(host) / "events.jsonl").read_text().splitlines():
            yield json.loads(line)

    def kept(self, host: LabHost, rank: int) -> bytes:
        """Return a rank's log as it lies here."""
        return (self.home / "gpulaunch-runs" / self.run_id / host.name / f"rank-{rank}.log").read_bytes()

    def written(self, host: LabHost, rank: int) -> bytes:
        """Return a rank's log as it lies on its host: every byte that the rank wrote."""
        return (self.run_dir(host) / f"rank-{rank}.log").read_bytes()

    def nothing_left(self, *, within_s: float = 10.0) -> float:
        """Assert that every process, port and claim of the run is gone; return how long that took."""
        began = time.monotonic()
        until(lambda: not any(host.strays() for host in self.lab.hosts), within_s, self._strays)
        seconds = time.monotonic() - began
        for host in self.lab.hosts:
            assert PORT not in listening(host), host.name
            claims = [path.name for path in host.path("/tmp").glob("gpulaunch-claim-*")]
            assert claims == [], host.name
        return seconds

    def _strays(self) -> str:
        return str({host.name: host.strays() for host in self.lab.hosts})


def listening(host: LabHost) -> set[int]:
    """Return the ports that anything listens on."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{host.init_pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTEN:
                found.add(int(words[1].rpartition(":")[2], 16))
    return found


def until(done: Callable[[], bool], within_s: float, why: Callable[[], str] = str) -> None:
    """Wait until something is so; fail with `why` when it does not become so."""
    deadline = time.monotonic() + within_s
    while not done():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)
