"""`gpulaunch run --nodes N` on a list of which some hosts are down or in use, over real SSH."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import network
from tests.lab.client import Client
from tests.lab.fault_runs import until
from tests.lab.hosts import Lab
from tests.lab.leftovers import holder
from tests.lab.run_cli import Cli
from tests.lab.software import cuda_environment
from tests.lab.test_restart import cli, write

__all__ = ["cli"]  # a fixture
pytestmark = pytest.mark.lab
LIST = "gone,busy,fine"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """The user of one host that is down, one whose GPU is held, and one that is fine."""
    with Lab.up(["busy", "fine"], tmp_path / "lab", profiles=["2xl40s", "2xl40s"]) as lab:
        client = Client(lab, tmp_path / "home")
        hosts = {host.name: {"python": cuda_environment(host), "workdir": "/root"} for host in lab.hosts}
        client.write({"gone": {"address": lab.dead_address(), "user": "root"}, **hosts})
        (client.home / "train.py").write_text("import torch\nprint('begun', torch.ones(1), flush=True)\n")
        job = {"script": "train.py", "send_script": True, "gpus": "all", "precision": "no"}
        (client.home / "job.yaml").write_text(json.dumps(job))
        yield client


def test_what_is_down_or_in_use_is_left_out_and_the_plan_is_that_of_the_others(client: Client) -> None:
    words = ("run", "-c", "./job.yaml", "--dry-run", "--json")
    busy = client.lab.host("busy")
    held = holder(busy, "--gpu", "0", "--mib", "900")
    done = client.run(*words, "--hosts", LIST, "--nodes", "1")
    said = done.stderr.decode()
    assert done.returncode == 0, said
    assert "left out: gone: cannot be used: " in said
    assert "left out: busy: gpu0: " in said
    assert "this launch takes 1 of 3 hosts: fine" in said
    named = client.run(*words, "--hosts", "fine")
    taken, alone = (json.loads(each.stdout) for each in (done, named))
    for plan in (taken, alone):
        assert plan.pop("run_id")
    assert [node["host"] for node in taken["nodes"]] == ["fine"]
    assert set(taken["left_out_hosts"]) == {"gone", "busy"}
    assert alone["left_out_hosts"] == {}
    for key in ("world_size", "main_address", "mixed_precision", "reasons", "changes"):
        assert taken[key] == alone[key]

    refused = client.run(*words, "--hosts", LIST, "--nodes", "2")
    said = refused.stderr.decode()
    assert refused.returncode == 1, said
    assert "1 of 3 hosts can be used, and the run needs 2" in said
    assert "add --wait 2h" in said
    assert "--nodes 1 takes the good one" in said
    assert set(json.loads(refused.stdout)["hosts"]) == {"gone", "busy", "fine"}

    waiting = client.start("run", "-c", "./job.yaml", "--hosts", LIST, "--nodes", "2", "--wait", "1s")
    output = b"".join(waiting.communicate(timeout=90)).decode()
    assert waiting.returncode == 75, output
    assert "this launch takes 2 of 3 hosts: busy,fine" in output
    assert "the GPUs were not free within 1s" in output
    with held:
        busy.kill(held.pid)


def test_a_restart_goes_to_the_host_of_the_list_that_was_not_needed(lab: Lab, cli: Cli) -> None:
    first, second, spare = lab.hosts
    write(cli)
    listed = f"{lab.dead_address()},{first.name},{second.name},{spare.name}"
    words = ("--nodes", "2", "--on-disconnect", "stop", "--disconnect-timeout", "3")
    running = cli.start(listed, *words)
    running.until(lambda text: f"[{first.name} r0] step 13" in text)
    network.cut(second)
    try:
        code, output = running.end(90)
    finally:
        network.restore(second)
    assert code == 0, output
    assert f"left out: {lab.dead_address()}: cannot be used: " in output
    assert "this launch takes 2 of 4 hosts: node-[1-2]" in output
    assert f"{spare.name} takes the place of {second.name}" in output
    until(lambda: not second.strays(), 60, lambda: str(second.strays()))
    starts = cli.outcome()["restarts"]["starts"]
    assert [start["hosts"] for start in starts] == [[first.name, second.name], [first.name, spare.name]]


def test_the_tree_goes_to_the_hosts_taken_alone(lab: Lab, cli: Cli) -> None:
    first, second, _ = lab.hosts
    project = cli.home / "project"
    project.mkdir()
    (project / "job.py").write_text("print('begun', flush=True)\n")
    listed = f"{lab.dead_address()},{first.name},{second.name}"
    words = ("-i", str(cli.inventory), "--set", "workdir=/root/any", "--set", "engine=accelerate")
    code, output = cli.invoke(
        project, "run", *words, "--hosts", listed, "--nodes", "1", "--gpus", "none", "--sync", "job.py"
    )
    assert code == 0, output
    assert f"this launch takes 1 of 3 hosts: {first.name}" in output
    assert "begun" in output
    assert first.path("/root/any/job.py").is_file()
    assert not second.path("/root/any").exists()
    shutil.rmtree(first.path("/root/any"))
