"""Runs in real containers of simulated hosts, over real SSH: `via: {podman: NAME}`, podman with runc."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.field_notes.ranks import LIGHT, shimmed
from tests.lab import containers
from tests.lab.hosts import Lab
from tests.lab.run_cli import Cli

pytestmark = [pytest.mark.lab, pytest.mark.train]

TRAIN = """
import time, torch, torch.distributed as dist
from pathlib import Path
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
print("sum", int(total), "of", dist.get_world_size(), "in", Path("sent.txt").read_text(), flush=True)
time.sleep(120)
"""
PLAIN = """
import os, time
print("up", os.environ["RANK"], flush=True)
time.sleep(120)
"""


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield two hosts with a container each, which hosts.yaml enters."""
    if reason := containers.missing():
        pytest.skip(reason)
    with Lab.up(2, tmp_path_factory.mktemp("boxes"), shares=(containers.CGROUPS,)) as lab:
        for host in lab.hosts:
            try:
                containers.start(host, containers.shares_of(lab))
            except RuntimeError as failure:
                pytest.skip(f"podman runs no container on this machine: {failure}")
        data = yaml.safe_load(lab.inventory_path.read_text())
        for entry in data["hosts"].values():
            entry["via"] = {"podman": containers.NAME}
        lab.inventory_path.write_text(yaml.safe_dump(data))
        yield lab


@pytest.fixture
def cli(boxes: Lab, tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(boxes, tmp_path / "home")
    yield cli
    cli.close()


def alive(lab: Lab, within_s: float = 5.0) -> list[str]:
    """Return the live processes of all containers but their first, after some time for those that end."""
    deadline = time.monotonic() + within_s
    while True:
        listed = [
            containers.podman(host, "exec", containers.NAME, "ps", "-eo", "pid=,stat=,args=")
            for host in lab.hosts
        ]
        lines = [line.split(maxsplit=2) for done in listed for line in done.stdout.splitlines()]
        left = [words[2] for words in lines if words[0] != "1" and words[1][0] != "Z"]
        left = [args for args in left if not args.startswith("ps -eo")]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def test_a_launch_in_containers_of_two_hosts_trains_is_stopped_and_leaves_nothing(
    boxes: Lab, cli: Cli
) -> None:
    names = ",".join(host.name for host in boxes.hosts)
    where = ("-i", str(boxes.inventory_path))
    (cli.home / "tree").mkdir()
    for name, text in {"sent.txt": "the tree", "job.py": TRAIN}.items():
        (cli.home / "tree" / name).write_text(text)
    keys = {"sync": {"from": "tree"}, "workdir": "~/job", "env": shimmed(LIGHT)}
    cli.write("", processes_per_host=1, send_script=False, **keys)
    code, output = cli.run(names, "--detach")
    assert code == 0, output
    deadline = time.monotonic() + 60
    while output.count("sum 3 of 2 in the tree") < 2:
        assert time.monotonic() < deadline, output
        output += cli.invoke(cli.home, "logs", "last", *where)[1]
    _, output = cli.invoke(cli.home, "ps", *where, "--json")
    (run,) = json.loads(output)["runs"]
    code, output = cli.invoke(cli.home, "stop", run["run_id"], *where)
    assert code == 0, output
    assert alive(boxes) == []
    code, output = cli.invoke(cli.home, "fetch", run["run_id"], *where)
    assert code == 0, output
    code, output = cli.invoke(cli.home, "clean-zombies", names, *where)
    assert code == 0, output


def test_a_killed_container_is_named_and_the_others_end(boxes: Lab, cli: Cli) -> None:
    first, second = boxes.hosts
    cli.write(PLAIN, processes_per_host=1)
    running = cli.start(f"{first.name},{second.name}")
    running.until(lambda text: "up 0" in text and "up 1" in text)
    containers.podman(second, "kill", containers.NAME)
    code, output = running.end()
    assert code == 5, output
    words = f"container {containers.NAME} is not running: exited with status 137, signal 9"
    assert f"{second.name} was lost ({words}; its part of the run has ended with it)" in output
    code, output = cli.invoke(cli.home, "preflight", second.name, "-i", str(boxes.inventory_path))
    assert (code, f"HOST014 on {second.name}: {words}" in output) == (1, True), output
    assert f"on {second.name}: podman start {containers.NAME}" in output
    containers.podman(second, "start", containers.NAME)
    assert alive(boxes) == []
