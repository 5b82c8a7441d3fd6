"""gpulaunch inside jobs of a real Slurm: a controller and four nodes, `slurmd -N`, proctrack/linuxproc.

Long ones are in soak_slurm.py, which `make soak` runs.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.transports.step.wire import KeptTexts
from tests.lab.client import Client
from tests.lab.gpus import silicon
from tests.lab.slurm_cluster import (
    CHECKOUT,
    ENDS,
    PLAIN_RUN,
    TRAIN_RUN,
    Cluster,
    bad_nodes,
    config_of_nodes,
    slurm_cluster,
    submit,
)

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as found:
        yield found


@pytest.mark.train
def test_a_job_trains_on_its_nodes_without_ssh(cluster: Cluster) -> None:
    for host in cluster.nodes:  # nobody may log in
        host.kill(host.sshd_pid())
    job = cluster.batch(f"exec {TRAIN_RUN}", "-N2")
    assert cluster.wait_over(job) == "COMPLETED", cluster.output(job)
    text = cluster.output(job)
    assert text.count(f"sum 3 of 2 {job} none") == 2, text
    assert "2 ranks as planned" in text
    assert "no process of the run is left on any host" in text
    assert len({rank["host"] for rank in cluster.outcome(job)["ranks"]}) == 2


def test_bytes_pass_through_srun_unchanged_while_all_processors_are_taken(cluster: Cluster) -> None:
    holder = "srun -N2 --ntasks-per-node=4 sleep 60 & holder=$!; sleep 0.5"
    through = f"PYTHONPATH={CHECKOUT} {sys.executable} through.py 4 20; kill $holder && echo held"
    job = cluster.batch(f"{holder}; {through}", "-N2", "--exclusive")
    assert cluster.wait_output(job, "held").startswith("True {b'n1\\n'}\n")
    cluster.wait_over(job)


def test_scancel_ends_the_run_everywhere(cluster: Cluster) -> None:
    job = cluster.batch(f"exec {PLAIN_RUN}", "-N2")
    cluster.wait_output(job, "] up ", 2)
    cluster.run("scancel", job)
    assert cluster.wait_over(job) == "CANCELLED"
    assert "no process of the run is left on any host" in cluster.output(job)
    assert cluster.outcome(job)["verdict"] == "interrupted"


CONFIG = """\
script: plain.py
engine: accelerate
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
    answer = json.loads(cluster.call(f"stacks {job} --json").stdout)
    assert "plain.py" in json.dumps(answer)
    leave = "while ! grep -q '] up ' left; do sleep 0.1; done; kill $!; wait $!"
    cluster.run("sh", "-c", f"./gpulaunch attach {job} > left 2>&1 & {leave}", cwd=str(cluster.work))
    left = (cluster.work / "left").read_text()
    assert f"detached; the run continues. Come back with: gpulaunch attach {job}" in left
    follow = f"({cluster.gpulaunch} attach {job}; echo code $?) > attached 2>&1 &"
    cluster.run("sh", "-c", follow, cwd=str(cluster.work))
    cluster.wait_file("attached", "] up ", 2)
    fetched = cluster.call(f"fetch {job} --to fetched")
    assert "in fetched" in fetched.stdout
    assert len(list(cluster.work.glob("fetched/n*/rank-*.log"))) == 2
    stopped = cluster.call(f"stop {job} --grace 2")
    assert "no process of it is left" in stopped.stdout
    assert cluster.wait_over(job) == "FAILED"  # exit code 130
    assert "\ncode 130\n" in cluster.wait_file("attached", "code")
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
    assert "`sinfo -o '%P %D %G %c %m'` shows what nodes have" in done.stderr
    done = cluster.call("submit -c ./submitted.yaml --set slurm.nodes=9 --json")
    many = json.loads(done.stdout)
    assert many["pending_reason"] in ("PartitionConfig", "PartitionNodeLimit")
    assert "set `nodes`" in done.stderr
    cluster.run("scancel", many["job"])
    printed = cluster.call("submit -c ./submitted.yaml --dry-run").stdout
    assert printed.startswith("#!/bin/bash\n#SBATCH --job-name=submitted\n#SBATCH --nodes=2\n")
    waits = cluster.batch("sleep 60", "--begin=now+1hour")
    assert f"Slurm job {waits} waits: it is PENDING (BeginTime)" in cluster.call(f"ps {waits}", code=2).stderr
    assert "is cancelled" in cluster.call(f"stop {waits}").stdout
    assert cluster.state(waits) == "CANCELLED"


def refused(cluster: Cluster, command: str, env: dict[str, str]) -> str:
    done = cluster.run("sh", "-c", command, env=env, cwd=str(cluster.work), check=False)
    assert done.returncode in (2, 3, 5), done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_what_is_no_job_is_refused_with_a_sentence(cluster: Cluster) -> None:
    preflight = f"{cluster.gpulaunch} preflight --gpus none"
    assert "this is not a job of Slurm" in refused(cluster, f"{preflight} --transport srun", {})
    answer = refused(cluster, preflight, {"SLURM_JOB_ID": "4711"})
    assert "Slurm job 4711 does not run: Slurm does not know it: it never was, or" in answer
    answer = refused(cluster, f"PATH=/nowhere {preflight}", {"SLURM_JOB_ID": "1"})
    assert "the PATH has no command squeue" in answer
    answer = refused(cluster, f"salloc -Q -N1 : -N1 {preflight}", {})
    assert "is heterogeneous" in answer


def test_a_job_with_a_bad_node_is_requeued_without_it_and_ends_elsewhere(cluster: Cluster) -> None:
    config_of_nodes(cluster, "requeued", ENDS, bad="n2", nodes=2, requeue=1)
    # The others are not to be had until the first start is over.
    cluster.run("scontrol", "update", "nodename=n[3-4]", "state=drain", "reason=test")
    job = submit(cluster, "requeued")
    cluster.wait_file(f"requeued/slurm-{job}.out", "BAD-NODES")
    cluster.run("scontrol", "update", "nodename=n[3-4]", "state=resume")
    text = cluster.wait_file(f"requeued/slurm-{job}.out", "finished (exit code 0)", timeout_s=90)
    answer = bad_nodes(text)
    assert (answer["job"], list(answer["nodes"])) == (job, ["n2"])
    assert (answer["action"], answer["excluded"]) == ("requeued", "n2")
    assert "/nowhere/python" in answer["nodes"]["n2"]
    assert 'for the administrator: scontrol update nodename=n2 state=drain reason="gpulaunch: ' in text
    assert cluster.wait_over(job) == "COMPLETED"
    assert "on n2" not in text.rpartition("BAD-NODES")[2]
    (path,) = cluster.work.rglob(f"slurm-{job}.json")  # gpulaunch-runs of the directory, or of one above
    kept = json.loads(path.read_text())
    assert kept["excluded"] == "n2"


def test_a_bad_node_fails_as_prolog_and_health_check_and_a_good_one_passes(cluster: Cluster) -> None:
    good, bad = cluster.lab.host("n3"), cluster.lab.host("n4")
    silicon().install(good, "8xh100")
    silicon().install(bad, "8xh100-broken")
    for name in ("prolog", "health"):
        path = cluster.work / f"{name}.sh"
        answer = f"{cluster.work}/{name}.$(hostname)"
        others = "case $(hostname) in n[12]) exit 0; esac"
        check = f"{cluster.gpulaunch} preflight localhost --prolog > {answer}.$$ 2>&1; code=$?"
        keep = f"echo $code >> {answer}.$$; mv {answer}.$$ {answer}; exit $code"
        path.write_text(f"#!/bin/sh\n{others}\n{check}; {keep}\n")
        path.chmod(0o755)
    programs = (f"Prolog={cluster.work}/prolog.sh", f"HealthCheckProgram={cluster.work}/health.sh")
    with cluster.with_settings(*programs, "HealthCheckInterval=4"):
        deadline = time.monotonic() + 60  # nodes read the settings some time after the controller
        while not (cluster.work / "prolog.n3").exists():
            assert time.monotonic() < deadline, cluster.log()
            assert cluster.wait_over(cluster.batch("true", "-w", "n3")) == "COMPLETED"
        jobs: list[str] = []
        while "Prolog" not in cluster.run("sinfo", "-h", "-n", "n4", "-o", "%E").stdout:
            assert time.monotonic() < deadline, cluster.log()
            if not jobs or cluster.state(jobs[-1]) == "COMPLETED":
                jobs.append(cluster.batch("true", "-w", "n4"))
            time.sleep(0.2)
        cluster.run("scancel", jobs[-1])
        for name in ("prolog", "health"):
            assert cluster.wait_file(f"{name}.n3", "\n0\n").startswith("ok: 8 GPUs, ")
            answer = cluster.wait_file(f"{name}.n4", "\n1\n")
            assert answer.startswith(("GPU003 gpu2: ", "HEAL001 gpu4: ", "HEAL003 gpu6: ")), answer
            assert answer.count("\n") == 2
    cluster.run("scontrol", "update", "nodename=n4", "state=resume")


def test_each_job_of_a_node_gets_the_gpu_of_its_own_step_by_uuid(cluster: Cluster) -> None:
    silicon().install(cluster.lab.host("n3"), "8xh100")
    plan = f"{cluster.gpulaunch} run plain.py --dry-run --json --ignore ENV003,DRV003,GPU006"
    jobs = [cluster.batch(f"{plan}; sleep 3", "-w", "n3", "--gres=gpu:1") for _ in range(2)]
    texts = [cluster.wait_output(job, '"exit_code": 0') for job in jobs]
    uuids = [set(re.findall(r"GPU-[0-9a-f-]{36}", text)) for text in texts]
    assert [len(each) for each in uuids] == [1, 1], texts
    assert uuids[0] != uuids[1]
    for number, text in enumerate(texts):
        reasons = json.loads(text[text.index("{") :])["reasons"]
        reason = {
            "text": "n3 offers 1 of its 8 GPUs",
            "source": f"CUDA_VISIBLE_DEVICES={number} of the Slurm step",
        }
        assert reason in reasons
    for job in jobs:
        cluster.wait_over(job)


def test_a_job_is_submitted_on_a_login_node_with_its_tree(cluster: Cluster, tmp_path: Path) -> None:
    cluster.head.put("/root/.bashrc", f"export SLURM_CONF={cluster.conf}\n")
    client = Client(cluster.lab, tmp_path / "home")
    client.write({"head": {"workdir": "~/project"}})
    project = client.home / "project"
    project.mkdir()
    (project / "job.py").write_text(ENDS)
    (project / "job.yaml").write_text(
        "script: job.py\nengine: accelerate\ngpus: none\nguard: 'off'\nslurm: {nodes: 2}\n"
    )
    (project / "hosts.yaml").write_text((cluster.work / "hosts.yaml").read_text())
    argv = client.argv("submit", "-c", "./job.yaml", "--login", "head", "--json")
    done = subprocess.run(argv, env=client.env, cwd=project, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    submitted = json.loads(done.stdout)
    job = submitted["job"]
    assert submitted["schema"] == "gpulaunch.submit/1"
    state = cluster.wait_over(job)
    output = cluster.head.path(f"/root/project/slurm-{job}.out").read_text()
    assert state == "COMPLETED", output
    assert "finished (exit code 0)" in output
    assert output.count("] up ") == 2


def test_what_differs_little_from_node_to_node_is_sent_to_all_only_once() -> None:
    texts = KeptTexts()
    common, tail = bytes(range(256)) * 400, b"tail" * 2000
    first = texts.input_messages("n1", "1", common + b"one" + tail)
    second = texts.input_messages("n2", "2", common + b"another" + tail)
    assert len(first) > len(common)
    assert second == b"n2 2 ref 0 %d %d 7\nanother" % (len(common), len(tail))
