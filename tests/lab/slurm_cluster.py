"""A Slurm cluster of the lab whose users have gpulaunch, and what its tests have in common."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import torchless
from tests.field_notes.ranks import LIGHT, shimmed
from tests.lab import slurm as slurm_lab
from tests.lab.hosts import Lab
from tests.lab.slurm import Slurm

CHECKOUT = Path(__file__).parents[2]
TRAIN = """
import os, time, torch
from accelerate import Accelerator
a = Accelerator()
model = a.prepare(torch.nn.Linear(4, 1))
model(torch.ones(2, 4)).sum().backward()
print("sum", int(a.reduce(torch.tensor([a.process_index + 1.0]))), "of", a.num_processes,
      os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_PROCID", "none"), flush=True)
a.end_training(); time.sleep(0.5)  # as in test_run.py: gloo's threads still need the GIL
"""
PLAIN = """
import os, time
print("up", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on", os.uname().nodename, flush=True)
time.sleep(120)
"""
# A megabyte on its way to and fro many times, on each node at once, while other steps come and go.
THROUGH_SRUN = """
import hashlib, os, sys, threading
from launcher.config.inventory import HostEntry
from launcher.slurm.jobs import read_allocation
from launcher.slurm.srun_step import StepHosts
job = read_allocation()
hosts = StepHosts(job, sys.executable)
data = os.urandom(1 << 20) * int(sys.argv[1])
def echo(node, told):
    connection = hosts.open(HostEntry(node, alias=node))
    done = connection.run(("cat",), stdin=data, timeout_s=120, max_output=1 << 30)
    told[node] = hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
told = {}
threads = [threading.Thread(target=echo, args=(node, told)) for node in job.nodes]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
connection = hosts.open(HostEntry(job.nodes[0], alias=job.nodes[0]))
names = {connection.run(("hostname",)).stdout for _ in range(int(sys.argv[2]))}
hosts.close()
print(told == dict.fromkeys(job.nodes, True), names)
"""
RUN = "./gpulaunch run {} --gpus none --guard off --no-restart"
PLAIN_RUN = f"{RUN.format('plain.py')} --set engine=accelerate"
TRAIN_RUN = f"{RUN.format('train.py')} -i real.yaml"


class Cluster(Slurm):
    """A Slurm whose users have gpulaunch."""

    def __init__(self, lab: Lab, extra: str = "", proctrack: str = "linuxproc") -> None:
        super().__init__(lab, extra, proctrack)
        self.work = Path(lab.spec.out) / "shared" / "work"
        self.work.mkdir()
        command = f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} -m launcher.cli "$@"\n'
        self.gpulaunch = self.work / "gpulaunch"
        self.gpulaunch.write_text(command)
        self.gpulaunch.chmod(0o755)
        # Only train.py is about torch; the accelerate engine of others starts ranks without it.
        python = torchless.write_python(self.work)
        nodes = {node.name: {"python": python} for node in self.nodes}
        (self.work / "hosts.yaml").write_text(json.dumps({"hosts": nodes}))
        (self.work / "real.yaml").write_text(
            json.dumps({"hosts": {node: {"python": sys.executable, "env": shimmed(LIGHT)} for node in nodes}})
        )
        (self.work / "plain.py").write_text(PLAIN)
        (self.work / "train.py").write_text(TRAIN)
        (self.work / "through.py").write_text(
            f"import sys; sys.path.insert(0, {str(CHECKOUT)!r})\n{THROUGH_SRUN}"
        )

    def batch(self, command: str, *options: str) -> str:
        """Submit a shell command as a job; return its id."""
        script = self.work / f"job-{time.monotonic_ns()}.sh"
        script.write_text(f"#!/bin/sh\n{command}\n")
        done = self.run("sbatch", "--parsable", "-o", "%j.out", *options, str(script), cwd=str(self.work))
        return done.stdout.strip()

    def call(self, words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
        """Run gpulaunch on the login node."""
        done = self.run(str(self.gpulaunch), *words.split(), cwd=str(self.work), check=False)
        assert done.returncode == code, done
        assert "Traceback" not in done.stderr
        return done

    def output(self, job: str) -> str:
        """Return what a job has printed."""
        path = self.work / f"{job}.out"
        return path.read_text() if path.exists() else ""

    def wait_output(self, job: str, words: str, count: int = 1, timeout_s: float = 120.0) -> str:
        """Wait until a job has printed these words so often."""
        return self.wait_file(f"{job}.out", words, count, timeout_s)

    def wait_file(self, name: str, words: str, count: int = 1, timeout_s: float = 120.0) -> str:
        """Wait until a file of the work directory has these words so often."""
        deadline = time.monotonic() + timeout_s
        path = self.work / name
        while (text := path.read_text() if path.exists() else "").count(words) < count:
            assert time.monotonic() < deadline, f"{text}\n{self.log()}"
            time.sleep(0.1)
        return text

    def wait_over(self, job: str) -> str:
        """Wait until a job is over, and no process of it is left on any node; return its state."""
        state = self.wait_state(job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        deadline = time.monotonic() + 20
        while left := [
            words for node in self.nodes for words in node.strays().values() if " gpulaunch" in words
        ]:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        return state

    def left(self) -> list[str]:
        """Return the command lines of what gpulaunch has started on any node."""
        lines = [line for node in self.nodes for line in node.strays().values()]
        return [line for line in lines if " gpulaunch-" in line]

    def outcome(self, job: str) -> dict[str, Any]:
        """Return the outcome of the run that a job has named."""
        place = self.output(job).split("logs: ")[1].split()[0]
        document = json.loads((self.work / place / "outcome.json").read_text())
        assert isinstance(document, dict)
        return document


@contextmanager
def slurm_cluster(place: Path, extra: str = "", proctrack: str = "linuxproc") -> Iterator[Cluster]:
    """Bring a login node and four nodes up; skip where Slurm cannot run, and fail with LAB_REQUIRED.

    `extra` are more lines of slurm.conf.
    """
    if reason := slurm_lab.missing():
        if os.environ.get("LAB_REQUIRED"):
            pytest.fail(reason)
        pytest.skip(reason)
    with Lab.up(["head", "n1", "n2", "n3", "n4"], place / "lab", one_home=True) as lab:
        found = Cluster(lab, extra, proctrack)
        try:
            yield found
        finally:
            found.down()


ENDS = 'import os; print("up", os.environ["RANK"], "on", os.uname().nodename, flush=True)\n'


def config_of_nodes(cluster: Cluster, name: str, script: str, bad: str, **slurm: int) -> None:
    """Write a run config for a job, and a hosts.yaml in which one node has no interpreter."""
    place = cluster.work / name
    place.mkdir()
    (place / "job.py").write_text(script)
    hosts = json.loads((cluster.work / "hosts.yaml").read_text())["hosts"] | {
        bad: {"python": "/nowhere/python"}
    }
    (place / "hosts.yaml").write_text(json.dumps({"hosts": hosts}))
    config = {"script": "job.py", "engine": "accelerate", "gpus": "none", "guard": "off", "slurm": slurm}
    (place / "job.yaml").write_text(json.dumps(config))


def submit(cluster: Cluster, name: str) -> str:
    """Submit it; return the job's id."""
    words = ["submit", "-c", "./job.yaml", "--json"]
    place = str(cluster.work / name)
    return str(json.loads(cluster.run(str(cluster.gpulaunch), *words, cwd=place).stdout)["job"])


def bad_nodes(text: str) -> dict[str, Any]:
    """Return the last line for programs."""
    line = next(line for line in reversed(text.splitlines()) if line.startswith("BAD-NODES "))
    document = json.loads(line.removeprefix("BAD-NODES "))
    assert isinstance(document, dict)
    return document
