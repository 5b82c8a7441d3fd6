"""A user's machine in the lab whose runs meet faults, and what must be true after each of them."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from launcher.onhost.supervisor.node import name_of
from launcher.rundir.run_id import make_run_id
from preflight.probes import claim_files
from tests.command_server import start_module
from tests.field_notes.ranks import LIGHT, shimmed
from tests.lab.fault_client import PORT
from tests.lab.hosts import Lab, LabHost
from tests.lab.run_cli import CHECKOUT, PATIENCE_S, Running, write_torchless_inventory

RUNS = "/root/.local/state/gpulaunch/runs"
LISTEN = "0A"  # st of /proc/net/tcp


class Laptop:
    """A home and a working directory, `survive_client` and gpulaunch's own commands in it."""

    def __init__(self, lab: Lab, home: Path, hosts: Sequence[LabHost] = ()) -> None:
        self.lab = lab
        self.home = home
        self.inventory = lab.inventory_path
        self.hosts = tuple(hosts or lab.hosts[:2])
        self.run_id = make_run_id("survive")
        self.started: list[Running] = []
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "known_hosts").write_text(lab.known_hosts.read_text())

    def names(self, count: int = 2) -> list[str]:
        """Return the names of its first hosts."""
        return [host.name for host in self.hosts[:count]]

    def launch(
        self,
        script: str,
        *,
        hosts: int = 2,
        ranks: int = 1,
        stops_after_s: float | None = None,
        detach: bool = False,
        screen: Path | None = None,
        hang_timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Running:
        """Start a run of plain ranks, each of which claims a GPU; what is printed may go to a file.

        `stops_after_s`: on_disconnect is stop, with this timeout.
        """
        config = self.home / "survive.json"
        document = {"inventory": str(self.lab.inventory_path), "hosts": self.names(hosts), "ranks": ranks}
        document |= {"run_id": self.run_id, "script": script, "detach": detach}
        document |= {"disconnect": [] if stops_after_s is None else ["stop", stops_after_s]}
        document |= {"hang_timeout_s": hang_timeout_s, "env": dict(env or {})}
        config.write_text(json.dumps(document))
        return self._start(["tests.lab.fault_client", str(config)], screen=screen)

    def without_torch(self) -> None:
        """From now on ranks of the accelerate engine start without torch (tests/torchless)."""
        self.inventory = write_torchless_inventory(self.lab, self.home)

    def train(self, script: str, *words: str, hosts: int = 2, **keys: object) -> Running:
        """Start `gpulaunch run`: preflight and accelerate."""
        (self.home / "job.py").write_text(script)
        config = {"script": "job.py", "send_script": True, "gpus": "none", "precision": "no"}
        config |= {"env": shimmed(LIGHT), **keys}
        (self.home / "job.yaml").write_text(json.dumps(config))
        return self.start("run", "-c", "./job.yaml", "--hosts", ",".join(self.names(hosts)), *words)

    def start(self, command: str, *words: str) -> Running:
        """Start a command of gpulaunch."""
        return self._start(["launcher.cli", command, "-i", str(self.inventory), *words])

    def run(self, command: str, *words: str, timeout_s: float = PATIENCE_S) -> tuple[int, str]:
        """Run a command of gpulaunch to its end."""
        return self.start(command, *words).end(timeout_s)

    def _start(self, words: Sequence[str], *, screen: Path | None = None) -> Running:
        env = {**os.environ, "HOME": str(self.home), "PYTHONPATH": str(CHECKOUT), "XDG_STATE_HOME": ""}
        if screen is None:
            self.started.append(Running(start_module(words[0], words[1:], self.home, env)))
            return self.started[-1]
        with screen.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", *words],
                cwd=self.home,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.started.append(Running(process, screen))
        return self.started[-1]

    def close(self) -> None:
        """End what a failed test has left here, and what runs on the hosts because of it."""
        failed = [running for running in self.started if running.process.poll() is None]
        for running in self.started:
            running.end(0.0)
        for host in self.hosts if failed else ():  # without its client a run goes on
            for pid in host.strays():
                host.kill(pid)

    # what is true of a run

    def under_way(self, running: Running, line: str = "line 3\n", *, ranks: int = 2) -> None:
        """Wait until every rank has printed a line; its GPU was claimed then, so looking later says a lot."""
        claimed = set()

        def ready(text: str) -> bool:
            for number, host in enumerate(self.hosts[:ranks]):
                if [is_locked(claim) for claim in claims(host, f"GPU-lab-{number}")] == [True]:
                    claimed.add(host.name)
            return text.count(line) >= ranks

        running.until(ready)
        assert claimed == set(self.names(ranks))

    def run_dir(self, host: LabHost) -> Path:
        """Return the run directory on a host, as this machine sees it."""
        return host.path(f"{RUNS}/{name_of(host.name, host.spec.machine_id)}/{self.run_id}")

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

    def log(self, host: LabHost, rank: int) -> Path:
        """Return where a rank's log lies here."""
        return self.home / "gpulaunch-runs" / self.run_id / host.name / f"rank-{rank}.log"

    def kept(self, host: LabHost, rank: int) -> bytes:
        """Return a rank's log as it lies here."""
        return self.log(host, rank).read_bytes()

    def written(self, host: LabHost, rank: int) -> bytes:
        """Return a rank's log as it lies on its host: every byte that the rank wrote."""
        return (self.run_dir(host) / f"rank-{rank}.log").read_bytes()

    def accounted(self, *, ranks: int = 2, within_s: float = 10.0, followed: bool = True) -> int:
        """Assert that nothing of the run is left, and that every byte of its ranks is here once.

        `followed`: the client stayed to the end, so they are here; else they are fetched. Returns how many.
        """
        self.nothing_left(within_s=within_s)
        hosts = list(enumerate(self.hosts[:ranks]))
        for rank, host in hosts:
            kept, written = self.kept(host, rank), self.written(host, rank)
            assert kept == written if followed else written.startswith(kept), (host.name, kept[-200:])
        if not followed:
            names = ",".join(self.names(ranks))
            code, output = self.run("fetch", self.run_id, "--logs-only", "--hosts", names)
            assert code == 0, output
            for rank, host in hosts:
                assert self.kept(host, rank) == self.written(host, rank), host.name
        return sum(self.log(host, rank).stat().st_size for rank, host in hosts)

    def nothing_left(self, *, within_s: float = 10.0) -> None:
        """Assert that every process, port and claim of the run is gone."""
        until(lambda: not any(host.strays() for host in self.hosts), within_s, self._strays)
        for host in self.hosts:
            assert PORT not in listening(host), host.name
            assert claims(host) == [], host.name

    def _strays(self) -> str:
        return str({host.name: host.strays() for host in self.hosts})


def run_called(output: str) -> str:
    """Return the id of the run that `gpulaunch run` has said it starts."""
    found = re.search(r"^==> run (\S+): ", output, re.MULTILINE)
    assert found is not None, output
    return found[1]


def claims(host: LabHost, gpu: str = "") -> list[Path]:
    """Return the files that claim a GPU of a host, or any."""
    return sorted(host.path("/tmp").glob(f"gpulaunch-claim-{gpu}*"))


def is_locked(claim: Path) -> bool:
    """Return whether a claim is held: something that guards the run has its file locked."""
    with suppress(FileNotFoundError), claim.open("rb") as file:
        return claim_files.is_locked(file.fileno())
    return False


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
