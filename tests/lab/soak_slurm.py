"""What takes minutes on a real Slurm; `make soak` runs it."""

import json
import sys
from collections.abc import Iterator

import pytest

from tests.lab.slurm_cluster import (
    CHECKOUT,
    ENDS,
    PLAIN,
    PLAIN_RUN,
    Cluster,
    bad_nodes,
    config_of_nodes,
    slurm_cluster,
    submit,
)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

SAVES = """
import json, pathlib, signal, sys
print("arguments", sys.argv[1:], flush=True)
if sys.argv[1:]:
    sys.exit(0)
def save(*_):
    if os.environ["RANK"] == "0":
        place = pathlib.Path("checkpoint-5"); place.mkdir()
        (place / "model.json").write_text("{}")
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as found:
        yield found


def test_a_killed_client_ends_the_run_and_the_job_goes_on(cluster: Cluster) -> None:
    kill = "while ! grep -q '] up 1' $SLURM_JOB_ID.run; do sleep 0.1; done; kill -9 $!; wait"
    left = "while srun --overlap ps -eo args | grep -q '[p]lain.py'; do sleep 0.3; done; echo over"
    job = cluster.batch(f"{PLAIN_RUN} > $SLURM_JOB_ID.run & {kill}; {left}", "-N2")
    cluster.wait_output(job, "over")
    cluster.wait_over(job)


def test_spares_take_the_places_of_nodes_that_are_bad_or_go_down(cluster: Cluster) -> None:
    script = PLAIN.replace("time.sleep(120)", "time.sleep(120 if os.uname().nodename == 'n3' else 8)")
    config_of_nodes(cluster, "spares", script, bad="n2", nodes=2, spare_nodes=2)
    job = submit(cluster, "spares")
    output = f"spares/slurm-{job}.out"
    cluster.wait_file(output, "up 1 of 2 on n3")
    cluster.run("scontrol", "update", "nodename=n3", "state=down", "reason=test")
    text = cluster.wait_file(output, "finished (exit code 0)", timeout_s=90)
    cluster.run("scontrol", "update", "nodename=n3", "state=resume", check=False)  # it may be back already
    named = bad_nodes(text + cluster.wait_file(output, "BAD-NODES"))
    assert (sorted(named["nodes"]), named["action"]) == (["n2", "n3"], "replaced")
    assert "Slurm reports that the node has failed" in named["nodes"]["n3"]
    assert "up 1 of 2 on n4" in text
    cluster.wait_over(job)


def test_64_mib_and_200_programs_pass_through_one_step(cluster: Cluster) -> None:
    job = cluster.batch(f"PYTHONPATH={CHECKOUT} {sys.executable} through.py 64 200", "-N4")
    assert cluster.wait_output(job, "True", timeout_s=200).split()[-1] == "{b'n1\\n'}"
    cluster.wait_over(job)


def test_200_steps_in_a_row(cluster: Cluster) -> None:
    step = "./gpulaunch preflight --gpus none --json > /dev/null || echo failed"
    job = cluster.batch(f"for i in $(seq 200); do {step}; done; echo all", "-N2")
    assert cluster.wait_output(job, "all", timeout_s=1500) == "all\n"
    cluster.wait_over(job)


def test_before_the_time_limit_ranks_save_and_the_job_goes_on_from_there(cluster: Cluster) -> None:
    config_of_nodes(cluster, "limit", PLAIN.replace("time.sleep(120)", SAVES), bad="n9", nodes=2, requeue=1)
    path = cluster.work / "limit" / "job.yaml"
    config = json.loads(path.read_text())
    config["before_stop"] = {"signal": "USR1", "wait_s": 20}
    config["slurm"] |= {"time": "2", "warn": "60s"}
    config["restart"] = {"max": 1, "resume_args": ["--resume", "{checkpoint}"]}
    path.write_text(json.dumps(config))
    job = submit(cluster, "limit")
    text = cluster.wait_file(f"limit/slurm-{job}.out", "finished (exit code 0)", timeout_s=300)
    assert "the warning before the time limit of a job" in text
    assert "after the signal the run wrote checkpoint-5, and it is whole" in text
    assert "Slurm starts the job again" in text
    assert text.count("arguments ['--resume', 'checkpoint-5']") == 2
    cluster.wait_over(job)


def test_a_job_takes_its_nodes_by_ssh(cluster: Cluster) -> None:
    place = cluster.work / "by-ssh"
    place.mkdir()
    hosts = {
        node.name: {"address": node.address, "user": "root", "python": sys.executable}
        for node in cluster.nodes
    }
    key = place / "key"
    key.write_bytes(cluster.lab.identity_file.read_bytes())
    key.chmod(0o600)
    known = {name: {**entry, "identity_file": str(key)} for name, entry in hosts.items()}
    (place / "hosts.yaml").write_text(json.dumps({"hosts": known}))
    (place / "ends.py").write_text(ENDS)
    ways = "--gpus none --guard off --no-restart --transport ssh --accept-new-host-keys --set workdir=$PWD"
    job = cluster.batch(f"cd by-ssh && exec ../gpulaunch run ends.py {ways}", "-N2")
    assert cluster.wait_over(job) == "COMPLETED", cluster.output(job)
    text = cluster.output(job)
    assert [f"up {rank} on n{rank + 1}" in text for rank in (0, 1)] == [True, True], text
    assert "no process of the run is left on any host" in text


def test_where_slurm_refuses_to_requeue_a_new_job_goes_without_the_bad_node(cluster: Cluster) -> None:
    config_of_nodes(cluster, "again", ENDS, bad="n2", nodes=2, requeue=1)
    run = "exec ../gpulaunch run -c ./job.yaml --transport srun"
    own = ("-N2", "--no-requeue", "--exclude=n1", "--time=7", "-D", str(cluster.work / "again"))
    job = cluster.batch(run, *own)
    named = bad_nodes(cluster.wait_file(f"again/{job}.out", "BAD-NODES"))
    assert (named["action"], named["excluded"], list(named["nodes"])) == ("resubmitted", "n1,n2", ["n2"])
    assert cluster.wait_over(job) == "FAILED"  # exit code 77
    new = named["new_job"]
    assert "TimeLimit=00:07:00" in cluster.run("scontrol", "show", "job", new).stdout
    text = cluster.wait_file(f"again/slurm-{new}.out", "finished (exit code 0)", timeout_s=120)
    assert "up 0 on n3" in text
    assert "up 1 on n4" in text
    assert "BAD-NODES" not in text
    assert cluster.wait_over(new) == "COMPLETED"


def test_a_tree_is_sent_to_nodes_that_do_not_share_it(cluster: Cluster) -> None:
    place = cluster.work / "sent"
    place.mkdir()
    (place / "part.py").write_text("WORD = 'from the tree'\n")
    (place / "job.py").write_text(f"import part\nprint(part.WORD, __file__)\n{ENDS}")
    target = "/var/tmp/sent-tree"
    config = {"script": "job.py", "gpus": "none", "guard": "off", "workdir": target, "sync": {"to": target}}
    (place / "job.yaml").write_text(json.dumps(config))
    job = cluster.batch("cd sent && exec ../gpulaunch run -c ./job.yaml --no-restart", "-N3")
    assert cluster.wait_over(job) == "COMPLETED", cluster.output(job)
    text = cluster.output(job)
    assert text.count(f"from the tree {target}/job.py") == 3, text
    assert all(node.path(f"{target}/part.py").exists() for node in cluster.nodes[:3])
    assert not cluster.head.path(target).exists()  # it is no directory that all share
