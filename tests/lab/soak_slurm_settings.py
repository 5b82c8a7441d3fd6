"""Slurm with other settings: jobs that it preempts, and processes that it tracks by control groups."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.slurm import FREEZER, without_cgroups
from tests.lab.slurm_cluster import PLAIN, RUN, Cluster, config_of_nodes, slurm_cluster, submit

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

SETTINGS = """\
SlurmctldParameters=preempt_send_user_signal
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-4] MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=40
PartitionName=high Nodes=n[1-4] MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""
SAVES = """
import json, pathlib, signal, sys
print("arguments", sys.argv[1:], flush=True)
if sys.argv[1:]:
    sys.exit(0)
def save(*_):
    print("saves", flush=True)
    if os.environ["RANK"] == "0":
        place = pathlib.Path("checkpoint-5"); place.mkdir()
        (place / "model.json").write_text("{}")
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
time.sleep(600)
"""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm"), SETTINGS) as found:
        yield found


def test_a_preempted_job_saves_is_requeued_and_resumes(cluster: Cluster) -> None:
    config_of_nodes(cluster, "low", PLAIN.replace("time.sleep(120)", SAVES), bad="n9", nodes=2, requeue=1)
    path = cluster.work / "low" / "job.yaml"
    config = json.loads(path.read_text())
    config["before_stop"] = {"signal": "USR1", "wait_s": 20}
    config["slurm"] |= {"partition": "low", "time": "10", "warn": "60s"}
    config["restart"] = {"max": 1, "resume_args": ["--resume", "{checkpoint}"]}
    path.write_text(json.dumps(config))
    job = submit(cluster, "low")
    output = f"low/slurm-{job}.out"
    cluster.wait_file(output, "arguments []", 2, timeout_s=180)
    other = cluster.batch("echo began; sleep 3", "-N4", "-p", "high", "--exclusive")
    cluster.wait_output(other, "began", timeout_s=180)
    text = cluster.wait_file(output, "finished (exit code 0)", timeout_s=400)
    assert "after the signal the run wrote checkpoint-5, and it is whole" in text
    assert text.count("arguments ['--resume', 'checkpoint-5']") == 2
    cluster.wait_over(job)
    cluster.wait_over(other)


def test_nothing_outlives_a_step_under_proctrack_cgroup(tmp_path: Path) -> None:
    if reason := without_cgroups():
        pytest.skip(reason)
    with slurm_cluster(tmp_path / "slurm", proctrack="cgroup") as cluster:
        job = cluster.batch(f"exec {RUN.format('train.py')}", "-N2")
        cluster.wait_output(job, "sum 3 of 2", 2, timeout_s=300)
        assert cluster.wait_over(job) == "COMPLETED", cluster.output(job)
        job = cluster.batch(f"exec {RUN.format('plain.py')}", "-N2")
        cluster.wait_output(job, " of 2 on ", 2, timeout_s=180)
        shown = cluster.nodes[0].run(
            ["sh", "-c", f"cat {FREEZER}/slurm_n1/uid_0/job_{job}/step_0/cgroup.procs"]
        )
        assert len(shown.stdout.split()) > 2, shown
        cluster.run("scancel", job)
        cluster.wait_over(job)
        assert "interrupted: SIGTERM (exit code 130)" in cluster.output(job)
