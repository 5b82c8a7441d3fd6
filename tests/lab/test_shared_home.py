"""Two hosts with one home, as on most clusters: every command finds each node where it is, and only there."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FreshLab
from tests.field_notes.ranks import LIGHT, shimmed
from tests.lab.fault_runs import RUNS, Laptop, claims, until
from tests.lab.fault_scripts import EXPECTED, some

pytestmark = [pytest.mark.lab]

TRAIN = """
import pathlib, sys, torch
from accelerate import Accelerator
a = Accelerator()
model = a.prepare(torch.nn.Linear(4, 1))
optimizer = a.prepare(torch.optim.SGD(model.parameters(), lr=0.01))
for step in range(20):
    loss = model(torch.ones(8, 4)).pow(2).mean()
    a.backward(loss); optimizer.step(); optimizer.zero_grad()
pathlib.Path(f"output.{a.process_index}").write_text(open("data.txt").read())
print("done", flush=True)
"""


@pytest.fixture
def laptop(fresh_lab: FreshLab, tmp_path: Path) -> Iterator[Laptop]:
    laptop = Laptop(fresh_lab(2, one_home=True), tmp_path / "home")
    yield laptop
    laptop.close()


def conditions(laptop: Laptop, *hosts: str) -> dict[str, str]:
    """Return what `gpulaunch ps` says of the one run, by host."""
    code, output = laptop.run("ps", "--json", *hosts)
    assert code == 0, output
    (run,) = json.loads(output)["runs"]
    assert run["run_id"] == laptop.run_id
    return {node["host"]: node["state"] for node in run["nodes"]}


def test_a_run_over_hosts_with_one_home_is_found_followed_and_ended_on_each(
    laptop: Laptop, tmp_path: Path
) -> None:
    first, second = laptop.hosts
    both = ",".join(laptop.names())
    go = laptop.lab.shared / f"go-{tmp_path.name}"
    code, output = laptop.launch(some(until=go), detach=True).end()
    assert code == 0, output
    assert sorted(path.name for path in first.path(RUNS).glob("*/survive-*")) == [laptop.run_id] * 2
    assert conditions(laptop, *laptop.names()) == {first.name: "running", second.name: "running"}
    assert conditions(laptop, first.name) == {first.name: "running"}
    code, refused = laptop.run("rm", laptop.run_id, "--yes", "--hosts", first.name)
    assert code == 1, refused
    assert "is not over, and is kept" in refused
    code, output = laptop.run("clean-zombies", *laptop.names(), "--yes")
    assert code == 0, output
    go.touch()
    code, output = laptop.run("attach", laptop.run_id, "--hosts", first.name)  # its record leads to the other
    assert code == 0, output
    laptop.nothing_left()
    for rank, host in enumerate(laptop.hosts):
        assert laptop.kept(host, rank) == laptop.written(host, rank) == EXPECTED
    code, output = laptop.run("fetch", laptop.run_id, "--hosts", both)
    assert code == 0, output
    code, output = laptop.run("prune", first.name, "--yes", "--older-than", "0s")
    assert code == 0, output
    assert f"{second.name}: not asked: 1 run of it in a home" in output
    assert not laptop.run_dir(first).exists()
    code, output = laptop.run("stop", laptop.run_id, "--hosts", first.name)
    assert code == 2, output
    assert f"one is in its home, of {second.name}" in output
    assert laptop.run_dir(second).exists()
    code, output = laptop.run("rm", laptop.run_id, "--yes", "--hosts", both)
    assert code == 0, output
    assert not laptop.run_dir(second).exists()


def test_a_host_that_comes_back_calls_its_own_run_lost_and_stops_no_other(laptop: Laptop) -> None:
    first, second = laptop.hosts
    code, output = laptop.launch(some(60.0), detach=True).end()
    assert code == 0, output
    second.halt()
    assert conditions(laptop, first.name) == {first.name: "running"}
    second.boot()
    beat = first.path(f"{RUNS}/{laptop.run_dir(second).parent.name}/{laptop.run_id}/heartbeat")
    os.utime(beat, (time.time() - 600,) * 2)  # it was down for so long
    assert conditions(laptop, *laptop.names()) == {first.name: "running", second.name: "lost"}
    code, output = laptop.run("stop", laptop.run_id, "--now", "--hosts", ",".join(laptop.names()))
    assert code == 1, output
    assert f"{second.name}: was lost before" in output
    until(lambda: not first.strays(), 10.0)
    assert claims(first) == []


@pytest.mark.train
def test_a_tree_is_sent_once_and_trained_where_hosts_share_it(laptop: Laptop) -> None:
    tree = laptop.home / "project"
    tree.mkdir()
    (tree / "data.txt").write_text("data\n")
    (tree / "job.py").write_text(TRAIN)
    config: dict[str, object] = {
        "script": "job.py",
        "workdir": "~/project",
        "sync": {"from": "project"},
        "gpus": "none",
    }
    config |= {"precision": "no", "env": shimmed(LIGHT)}
    (laptop.home / "job.yaml").write_text(json.dumps(config))
    first, second = laptop.names()
    code, output = laptop.run("rehearse", "-c", "./job.yaml", "--hosts", f"{first},{second}", "--steps", "4")
    assert code == 0, output
    assert f"sync: {second}:/root/project is the same directory as on {first}; nothing to send" in output
    there = laptop.hosts[0].path("/root/project")
    assert {path.name for path in there.iterdir()} == {".gpulaunch-sync", "data.txt", "job.py"}
    assert laptop.hosts[1].strays_after() == {}
