"""gpulaunch inside jobs of a real Slurm: a controller and four nodes, `slurmd -N`, proctrack/linuxproc."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import slurm as slurm_lab
from tests.lab.gpus import silicon
from tests.lab.hosts import Lab
from tests.lab.slurm import Slurm

pytestmark = pytest.mark.lab

CHECKOUT = Path(__file__).parents[2]
TRAIN = """
import os, torch
from accelerate import Accelerator
a = Accelerator()
model = a.prepare(torch.nn.Linear(4, 1))
model(torch.ones(2, 4)).sum().backward()
print("sum", int(a.reduce(torch.tensor([a.process_index + 1.0]))), "of", a.num_processes,
      os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_PROCID", "none"), flush=True)
a.end_training()
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
from launcher.slurm.allocation import read_allocation
from launcher.slurm.step_hosts import StepHosts
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


class Cluster(Slurm):
    """A Slurm whose users have gpulaunch."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(lab)
        self.work = Path(lab.spec.out) / "shared" / "work"
        self.work.mkdir()
        command = f'#!/bin/sh\nPYTHONPATH={CHECKOUT} exec {sys.executable} -m launcher.cli "$@"\n'
        self.gpulaunch = self.work / "gpulaunch"
        self.gpulaunch.write_text(command)
        self.gpulaunch.chmod(0o755)
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

    def wait_output(self, job: str, words: str, count: int = 1, timeout_s: float = 60.0) -> str:
        """Wait until a job has printed these words so often."""
        return self.wait_file(f"{job}.out", words, count, timeout_s)

    def wait_file(self, name: str, words: str, count: int = 1, timeout_s: float = 60.0) -> str:
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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := slurm_lab.missing():
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    out = tmp_path_factory.mktemp("slurm") / "lab"
    with Lab.up(["head", "n1", "n2", "n3", "n4"], out, one_home=True) as lab:
        found = Cluster(lab)
        yield found
        found.down()


RUN = "./gpulaunch run {} --gpus none --guard off --no-restart"


@pytest.mark.train
def test_a_job_trains_on_its_nodes_without_ssh(cluster: Cluster) -> None:
    for host in cluster.nodes:  # nobody may log in
        host.kill(host.sshd_pid())
    job = cluster.batch(f"exec {RUN.format('train.py')}", "-N2")
    assert cluster.wait_over(job) == "COMPLETED", cluster.output(job)
    text = cluster.output(job)
    assert text.count(f"sum 3 of 2 {job} none") == 2, text
    assert "2 ranks as planned" in text
    assert "no process of the run is left on any host" in text
    assert len({rank["host"] for rank in cluster.outcome(job)["ranks"]}) == 2


def test_bytes_pass_through_srun_unchanged_while_all_processors_are_taken(cluster: Cluster) -> None:
    holder = "srun -N2 --ntasks-per-node=4 sleep 60 & sleep 0.3; "
    through = f"PYTHONPATH={CHECKOUT} {sys.executable} through.py 4 60"
    job = cluster.batch(f"{holder} {through}; kill %1", "-N2", "--exclusive")
    text = cluster.wait_output(job, "True")
    assert text.split()[-1] == "{b'n1\\n'}", text
    cluster.wait_over(job)


def test_scancel_ends_the_run_everywhere(cluster: Cluster) -> None:
    job = cluster.batch(f"exec {RUN.format('plain.py')}", "-N2")
    cluster.wait_output(job, "] up ", 2)
    cluster.run("scancel", job)
    assert cluster.wait_over(job) == "CANCELLED"
    assert "no process of the run is left on any host" in cluster.output(job)
    assert cluster.outcome(job)["verdict"] == "interrupted"


def test_a_killed_client_ends_the_run_and_the_job_goes_on(cluster: Cluster) -> None:
    kill = "while ! grep -q '] up 1' $SLURM_JOB_ID.run; do sleep 0.1; done; kill -9 $!; wait"
    left = "while srun --overlap ps -eo args | grep -q '[p]lain.py'; do sleep 0.3; done; echo over"
    job = cluster.batch(f"{RUN.format('plain.py')} > $SLURM_JOB_ID.run & {kill}; {left}", "-N2")
    cluster.wait_output(job, "over")
    cluster.wait_over(job)


CONFIG = """\
script: plain.py
gpus: none
guard: "off"
hosts: elsewhere
slurm: {nodes: 2, time: 10, partition: main, sbatch: {comment: two words}}
"""


def test_a_submitted_job_is_followed_and_stopped_by_its_id(cluster: Cluster) -> None:
    (cluster.work / "submitted.yaml").write_text(CONFIG)
    submitted = cluster.call("submit -c ./submitted.yaml --json")
    job = json.loads(submitted.stdout)["job"]
    cluster.wait_file(f"slurm-{job}.out", "] up ", 2)
    listed = json.loads(cluster.call(f"ps {job} --json").stdout)
    assert [run["state"] for run in listed["runs"]] == ["running"]
    assert len(listed["runs"][0]["nodes"]) == 2
    assert cluster.call(f"logs {job} --rank 1").stdout.startswith("up 1 of 2 on n")
    fetched = cluster.call(f"fetch {job} --to fetched")
    assert "in fetched" in fetched.stdout
    assert len(list(cluster.work.glob("fetched/n*/rank-*.log"))) == 2
    stopped = cluster.call(f"stop {job} --grace 2")
    assert "no process of it is left" in stopped.stdout
    assert cluster.wait_over(job) == "FAILED"  # exit code 130
    over = cluster.call(f"logs {job}", code=2)
    assert f"Slurm job {job} does not run: it is FAILED" in over.stderr
    assert f"slurm-{job}.out" in over.stderr


def test_what_slurm_refuses_is_one_error_with_its_fix(cluster: Cluster) -> None:
    (cluster.work / "submitted.yaml").write_text(CONFIG)
    done = cluster.call("submit -c ./submitted.yaml --set slurm.partition=nowhere", code=5)
    assert "sbatch: Batch job submission failed: Invalid partition name specified" in done.stderr.replace(
        "invalid partition specified: nowhere; ", ""
    )
    assert "`sinfo -o %P` lists the partitions" in done.stderr
    done = cluster.call("submit -c ./submitted.yaml --set slurm.gpus_per_node=9", code=5)
    assert "set `gpus_per_node` of slurm:" in done.stderr
    printed = cluster.call("submit -c ./submitted.yaml -n").stdout
    assert printed.startswith("#!/bin/bash\n#SBATCH --job-name=submitted\n#SBATCH --nodes=2\n")
    waits = cluster.batch("sleep 60", "--begin=now+1hour")
    assert "is cancelled" in cluster.call(f"stop {waits}").stdout
    assert cluster.state(waits) == "CANCELLED"


def refused(cluster: Cluster, command: str, env: dict[str, str]) -> str:
    done = cluster.run("sh", "-c", command, env=env, cwd=str(cluster.work), check=False)
    assert done.returncode in (2, 3, 5), done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_what_is_no_job_is_refused_with_a_sentence(cluster: Cluster) -> None:
    preflight = f"{cluster.gpulaunch} preflight --gpus none"
    assert "this is no job of Slurm" in refused(cluster, f"{preflight} --transport srun", {})
    told = refused(cluster, preflight, {"SLURM_JOB_ID": "4711"})
    assert "Slurm job 4711 does not run: Slurm does not know it any more" in told
    told = refused(cluster, f"PATH=/nowhere {preflight}", {"SLURM_JOB_ID": "1"})
    assert "squeue: there is no such command on the PATH" in told
    told = refused(cluster, f"salloc -Q -N1 : -N1 {preflight}", {})
    assert "is heterogeneous" in told


def test_a_bad_node_fails_as_prolog_and_health_check_and_a_good_one_passes(cluster: Cluster) -> None:
    good, bad = cluster.lab.host("n3"), cluster.lab.host("n4")
    silicon().install(good, "8xh100")
    silicon().install(bad, "8xh100-broken")
    for name in ("prolog", "health"):
        path = cluster.work / f"{name}.sh"
        told = f"{cluster.work}/{name}.$(hostname)"
        others = "case $(hostname) in n[12]) exit 0; esac"
        check = f"{cluster.gpulaunch} preflight localhost --prolog > {told}.$$ 2>&1; code=$?"
        keep = f"echo $code >> {told}.$$; mv {told}.$$ {told}; exit $code"
        path.write_text(f"#!/bin/sh\n{others}\n{check}; {keep}\n")
        path.chmod(0o755)
    programs = (f"Prolog={cluster.work}/prolog.sh", f"HealthCheckProgram={cluster.work}/health.sh")
    with cluster.with_settings(*programs, "HealthCheckInterval=4"):
        assert cluster.wait_over(cluster.batch("true", "-w", "n3")) == "COMPLETED"
        refused_job = cluster.batch("true", "-w", "n4")
        deadline = time.monotonic() + 30
        while "Prolog" not in cluster.run("sinfo", "-h", "-n", "n4", "-o", "%E").stdout:
            assert time.monotonic() < deadline, cluster.log()
            time.sleep(0.2)
        cluster.run("scancel", refused_job)
        for name in ("prolog", "health"):
            assert cluster.wait_file(f"{name}.n3", "\n0\n").startswith("ok: 8 GPUs, ")
            told = cluster.wait_file(f"{name}.n4", "\n1\n")
            assert told.startswith(("GPU003 gpu2: ", "HEAL001 gpu4: ", "HEAL003 gpu6: ")), told
            assert told.count("\n") == 2
    cluster.run("scontrol", "update", "nodename=n4", "state=resume")
