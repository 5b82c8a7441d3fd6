"""gpulaunch itself, as a user starts it, against the lab's hosts."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from launcher import planning
from launcher.engines import accelerate
from launcher.inventory import load_inventory
from launcher.outcome import Outcome
from launcher.planning import Sent, make_plan
from launcher.report.run import Screen
from launcher.run import Attempt, Launch, check, new_run_id
from launcher.running.connections import Connections
from launcher.transports import open_endpoint
from launcher.transports.base import OpenOptions
from launcher.transports.sshconfig import endpoint_for
from preflight.job import Job
from preflight.ranks import map_ranks
from tests.lab.hosts import Lab

CHECKOUT = Path(__file__).parents[2]


class Cli:
    """A user's home and working directory, and `gpulaunch run` in it."""

    def __init__(self, lab: Lab, home: Path) -> None:
        self.lab = lab
        self.home = home
        self.started: list[Running] = []
        ssh = home / ".ssh"
        ssh.mkdir(parents=True)
        (ssh / "known_hosts").write_text(lab.known_hosts.read_text())

    def write(self, script: str, **keys: object) -> None:
        """Write job.py, and a run config that sends it."""
        (self.home / "job.py").write_text(script)
        config = {"script": "job.py", "send_script": True, "gpus": "none", "precision": "no", **keys}
        (self.home / "job.yaml").write_text(json.dumps(config))

    def start(self, hosts: str, *words: str) -> "Running":
        """Start `gpulaunch run` on these hosts."""
        argv = [sys.executable, "-m", "launcher.cli", "run", "-c", "./job.yaml", "--hosts", hosts]
        process = subprocess.Popen(
            [*argv, "-i", str(self.lab.inventory_path), *words],
            cwd=self.home,
            env={**os.environ, "HOME": str(self.home), "PYTHONPATH": str(CHECKOUT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.started.append(Running(process))
        return self.started[-1]

    def close(self) -> None:
        """End what a failed test has left."""
        for running in self.started:
            running.end(0.0)

    def run(self, hosts: str, *words: str, timeout_s: float = 90.0) -> tuple[int, str]:
        """Run to the end; return exit code and output."""
        return self.start(hosts, *words).end(timeout_s)

    def outcome(self) -> dict[str, Any]:
        """Return what the last run left as its outcome."""
        newest = max((self.home / "gpulaunch-runs").iterdir(), key=lambda path: path.stat().st_mtime)
        document = json.loads((newest / "outcome.json").read_text())
        assert isinstance(document, dict)
        return document


class Running:
    """A `gpulaunch run` that goes on."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.output = b""
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)

    def until(self, done: Callable[[str], bool], timeout_s: float = 60.0) -> None:
        """Read on until the output is so."""
        deadline = time.monotonic() + timeout_s
        while not done(self._read()):
            assert time.monotonic() < deadline, self.output.decode(errors="replace")
            assert self.process.poll() is None or done(self._read()), self.output.decode(errors="replace")
            time.sleep(0.02)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill the client with -9."""
        self.process.kill()

    def end(self, timeout_s: float = 60.0) -> tuple[int, str]:
        """Wait for the end; return exit code and output."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None and time.monotonic() < deadline:
            self._read()
            time.sleep(0.02)
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        assert self.process.stdout is not None
        if self.process.stdout.closed:
            return code, ""
        text = self._read()
        self.process.stdout.close()
        return code, text

    def _read(self) -> str:
        assert self.process.stdout is not None
        while data := self.process.stdout.read():
            self.output += data
        return self.output.decode(errors="replace")


class Uneven:
    """A launch with another number of CPU ranks on each host, as hosts with other numbers of GPUs give it."""

    def __init__(self, lab: Lab, home: Path, counts: Mapping[str, int]) -> None:
        self.counts = counts
        self.screen = io.StringIO()
        known = str(lab.known_hosts)
        inventory = load_inventory(lab.inventory_path)
        self.entries = inventory.resolve(counts)
        self.connections = Connections(
            lambda entry: open_endpoint(
                replace(endpoint_for(entry, inventory), known_hosts_files=(known,)), OpenOptions()
            )
        )
        self.home = home

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connections.close()

    def run(self, script: str) -> Outcome:
        """Plan as `make_plan` does, but for the counts; start and follow it."""
        job = Job(name="uneven", script="job.py", send_script=True, gpus="none", precision="no")
        launch = Launch(self.entries, job, self.connections, sent=Sent("job.py", script), logs=self.home)
        result = check(launch, lambda _: None).result
        hosts = [(entry, result.facts[entry.name]) for entry in self.entries]
        ranks = {
            name: map_ranks(result.facts[name], replace(job, processes_per_host=count), None)
            for name, count in self.counts.items()
        }
        even = make_plan(hosts, job, run_id=new_run_id("uneven"), sent=launch.sent)
        world = accelerate.World(
            even.run_id, len(hosts), sum(self.counts.values()), even.main_address, even.main_port, "no"
        )
        nodes = planning._nodes(hosts, job, world, ranks, launch.sent)
        plan = replace(even, nodes=nodes, world_size=world.size)
        return Attempt(launch, plan, Screen(self.screen)).run()
