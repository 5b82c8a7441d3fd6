"""Slurm with other settings: jobs that it preempts, and processes that it tracks by control groups."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.slurm import FREEZER, without_cgroups
from tests.lab.slurm_cluster import (
    PLAIN,
    PLAIN_RUN,
    RUN,
    TRAIN_RUN,
    Cluster,
    config_of_nodes,
    slurm_cluster,
    submit,
)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

PLAIN_PREEMPTION = """\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=low Nodes=n[1-4] MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=40
PartitionName=high Nodes=n[1-4] MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""
SETTINGS = "SlurmctldParameters=preempt_send_user_signal\n" + PLAIN_PREEMPTION
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


def write_config(cluster: Cluster, signal_name: str, *, requeue: int = 1) -> None:
    """Write a run config of a job that saves on a signal and resumes from what it saved."""
    script = PLAIN.replace("time.sleep(120)", SAVES.replace("SIGUSR1", f"SIG{signal_name}"))
    config_of_nodes(cluster, "low", script, bad="n9", nodes=2, requeue=requeue)
    path = cluster.work / "low" / "job.yaml"
    config = json.loads(path.read_text())
    config["before_stop"] = {"signal": signal_name, "wait_s": 20}
    config["slurm"] |= {"partition": "low", "time": "10", "warn": "60s"}
    config["restart"] = {"max": 1, "resume_args": ["--resume", "{checkpoint}"]}
    path.write_text(json.dumps(config))


def preempt(cluster: Cluster, job: str, output: str) -> str:
    """Have a job preempted once its ranks run; return its output once its second start has finished."""
    cluster.wait_file(output, "arguments []", 2, timeout_s=180)
    other = cluster.batch("echo began; sleep 3", "-N4", "-p", "high", "--exclusive")
    cluster.wait_output(other, "began", timeout_s=180)
    text = cluster.wait_file(output, "finished (exit code 0)", timeout_s=400)
    assert "after the signal the run wrote checkpoint-5, and it is whole" in text
    assert text.count("arguments []") == 2  # no start of its own while Slurm takes the nodes
    assert text.count("arguments ['--resume', 'checkpoint-5']") == 2
    cluster.wait_over(job)
    cluster.wait_over(other)
    return text


def test_a_preempted_job_saves_is_requeued_and_resumes(cluster: Cluster) -> None:
    write_config(cluster, "USR1")
    job = submit(cluster, "low")
    preempt(cluster, job, f"low/slurm-{job}.out")


def test_a_job_preempted_by_sigterm_to_its_step_saves_and_resumes(tmp_path: Path) -> None:
    """Under proctrack/linuxproc Slurm sends SIGTERM to the ranks as well."""
    with slurm_cluster(tmp_path / "slurm", PLAIN_PREEMPTION) as cluster:
        write_config(cluster, "TERM")
        job = submit(cluster, "low")
        text = preempt(cluster, job, f"low/slurm-{job}.out")
        assert "not started again: Slurm ends its job" in text
        assert "interrupted: Slurm preempts this job (exit code 130)" in text
        assert "Slurm starts the job again" in text


OPENS = """
import errno, os
found = []
for number in (0, 1):
    try:
        os.close(os.open("/dev/labgpu%d" % number, os.O_RDONLY))
    except OSError as error:
        found.append(errno.errorcode[error.errno])
print("devices", os.environ.get("RANK"), found, flush=True)
"""


def test_nothing_outlives_a_step_under_proctrack_cgroup(tmp_path: Path) -> None:
    if reason := without_cgroups():
        pytest.skip(reason)
    with slurm_cluster(tmp_path / "slurm", PLAIN_PREEMPTION, proctrack="cgroup") as cluster:
        job = cluster.batch(f"exec {TRAIN_RUN}", "-N2")
        cluster.wait_output(job, "sum 3 of 2", 2, timeout_s=300)
        assert cluster.wait_over(job) == "COMPLETED", cluster.output(job)
        job = cluster.batch(f"exec {PLAIN_RUN}", "-N2")
        cluster.wait_output(job, " of 2 on ", 2, timeout_s=180)
        shown = cluster.nodes[0].run(
            ["sh", "-c", f"cat {FREEZER}/slurm_n1/uid_0/job_{job}/step_0/cgroup.procs"]
        )
        assert len(shown.stdout.split()) > 2, shown
        cluster.run("scancel", job)
        cluster.wait_over(job)
        assert "interrupted: SIGTERM (exit code 130)" in cluster.output(job)
        if cluster.confines:  # ENXIO: no driver, but the job may use it; EPERM: it may not
            (cluster.work / "opens.py").write_text(OPENS)
            job = cluster.batch(f"exec {RUN.format('opens.py')}", "-N2", "--gres=gpu:1")
            assert cluster.wait_over(job) == "COMPLETED", cluster.output(job)
            for rank in (0, 1):
                assert f"devices {rank} ['ENXIO', 'EPERM']" in cluster.output(job)
        # Plain preemption of a job that Slurm itself requeues: SIGTERM goes to the step's tasks alone.
        write_config(cluster, "USR1")
        run = "cd low && exec ../gpulaunch run -c ./job.yaml --transport srun --set slurm.requeue=0"
        job = cluster.batch(run, "-N2", "-p", "low", "--requeue", "--open-mode=append")
        text = preempt(cluster, job, f"{job}.out")
        assert text.count("saves") == 2
        assert "gpulaunch does not requeue the job (requeue of slurm: is not set), and waits up to" in text
