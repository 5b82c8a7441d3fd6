"""`gpulaunch run` over real SSH on simulated hosts, with real accelerate and gloo."""

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FreshLab
from tests.lab import actors, network
from tests.lab.hosts import Lab
from tests.lab.run_cli import Cli

pytestmark = [pytest.mark.lab, pytest.mark.train]

TRAIN = """
import sys, time
import torch
from accelerate import Accelerator
a = Accelerator()
model = a.prepare(torch.nn.Linear(4, 1))
optimizer = a.prepare(torch.optim.SGD(model.parameters(), lr=0.1))
for step in range(3):
    loss = model(torch.ones(2, 4) * (a.process_index + 1)).pow(2).mean()
    a.backward(loss); optimizer.step(); optimizer.zero_grad()
total = a.reduce(torch.tensor([a.process_index + 1.0]))
print("sum", int(total), "of", a.num_processes, flush=True)
"""
WAIT = TRAIN + "time.sleep(120)\n"
FAIL = """
a.wait_for_everyone()
if a.process_index == 2: 1 / 0
time.sleep(120)
"""
# Ranks that need no torch: it is about their processes.
ARGUMENTS = """
import os, sys, time
print("args", sys.argv[1:], flush=True)
rank, world, local, port = map(os.environ.get, ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT"))
print(f"rank {rank} of {world}, local {local}, port {port}", flush=True)
"""
PLAIN = """
import os, time
print("up", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], flush=True)
if os.environ["RANK"] == "{failing}": time.sleep(1); {failure}
time.sleep(120)
"""
UP = PLAIN.format(failing="", failure="pass")


@pytest.fixture
def cli(lab: Lab, tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(lab, tmp_path / "home")
    yield cli
    cli.close()
    _no_run_is_left(lab)


def _no_run_is_left(lab: Lab, within_s: float = 5.0) -> None:
    deadline = time.monotonic() + within_s
    while left := {host.name: found for host in lab.hosts if (found := host.strays())}:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def names(lab: Lab, count: int) -> str:
    return ",".join(host.name for host in lab.hosts[:count])


def test_ranks_of_unequal_hosts_train_as_one_world_and_one_that_fails_stops_every_host(
    lab: Lab, cli: Cli
) -> None:
    first, second = (host.name for host in lab.hosts[:2])
    cli.write(TRAIN + FAIL, processes_per_host={first: 1, second: 2})
    running = cli.start(names(lab, 2))
    running.until(lambda text: "ZeroDivisionError" in text)
    started = time.monotonic()
    code, output = running.end()
    assert time.monotonic() - started < 30  # the others would go on for two minutes
    assert code == 1, output
    assert output.count("sum 6 of 3") == 3
    assert "3 ranks as planned: world size 3, on the CPU" in output
    assert "mixed precision no in every rank, as planned" in output
    assert f"root cause: rank 2 on {second} failed with exit code 1: ZeroDivisionError" in output
    assert re.search(r"at \S+/script/job\.py:\d+ on " + second, output)
    assert "no process of the run is left on any host" in output


def test_three_hosts_with_unequal_ranks_are_one_world_beside_a_held_port(lab: Lab, cli: Cli) -> None:
    first, second, third = (host.name for host in lab.hosts)
    cli.without_torch()  # the test above has the real launchers bring unequal hosts together
    cli.write(ARGUMENTS, processes_per_host={first: 1, second: 2, third: 1})
    words = ["a b", "$HOME", "`id`", "'\"", "*", ";rm -rf x", "é\n", "\\", ""]
    with actors.hold_port(lab.hosts[0], 29500):
        code, output = cli.run(names(lab, 3), "--", *words)
    assert code == 0, output
    (port,) = re.findall(r"--port 29500 -> (\d+)", output)
    assert f"4 ranks on {first} (1), {second} (2), {third} (1)" in output
    assert f"[{third} r3] rank 3 of 4, local 0, port {port}" in output
    assert f"no process of the run is left on any host, port {port} is free" in output
    outcome = cli.outcome()
    assert [(rank["host"], rank["code"]) for rank in outcome["ranks"]] == [
        (first, 0),
        (second, 0),
        (second, 0),
        (third, 0),
    ]
    for rank, (host, local) in enumerate(((first, 0), (second, 0), (second, 1), (third, 0))):
        log = Path(cli.home, outcome["logs"], host, f"rank-{rank}.log").read_text()
        assert log.splitlines()[:2] == [f"args {words}", f"rank {rank} of 4, local {local}, port {port}"]


DDP = """
import os, sys, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.ones(2, 4) * (rank + 1)).pow(2).mean()
    loss.backward(); optimizer.step(); optimizer.zero_grad()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
print("sum", int(total), "of", dist.get_world_size(), "args", sys.argv[1:], "local", local, flush=True)
dist.barrier()
if rank == 2: 1 / 0
time.sleep(120)
"""


def test_a_plain_torch_script_trains_and_fails_under_torchrun_on_unequal_hosts(lab: Lab, cli: Cli) -> None:
    first, second = (host.name for host in lab.hosts[:2])
    cli.write(DDP, processes_per_host={first: 2, second: 1}, precision="auto")
    code, output = cli.run(names(lab, 2), "--", "a b", "$HOME", "")
    assert code == 1, output
    assert output.count("sum 6 of 3") == 3
    assert "args ['a b', '$HOME', ''] local 1" in output
    assert "3 ranks as planned: world size 3, on the CPU" in output
    assert f"root cause: rank 2 on {second} failed with exit code 1: ZeroDivisionError" in output
    assert "no process of the run is left on any host" in output
    plan = json.loads(next(cli.home.glob("gpulaunch-runs/*/plan.json")).read_text())
    assert plan["engine"] == "torchrun"
    assert plan["nodes"][1]["argv"][2:4] == ["-m", "torch.distributed.run"]


def test_a_host_without_a_number_of_ranks_is_named_before_anything_starts(lab: Lab, cli: Cli) -> None:
    cli.write(TRAIN, processes_per_host={lab.hosts[0].name: 1})
    code, output = cli.run(names(lab, 2))
    assert code == 1, output
    assert f"{lab.hosts[1].name}: processes_per_host does not say how many ranks it gets" in output
    assert not (cli.home / "gpulaunch-runs").exists()


def test_a_killed_rank_gives_its_signal(lab: Lab, cli: Cli) -> None:
    cli.without_torch()  # the first test has the real launchers see a rank fail
    cli.write(PLAIN.format(failing=1, failure="os.kill(os.getpid(), 9)"), processes_per_host=2)
    code, output = cli.run(names(lab, 1))
    assert code == 128 + 9, output
    assert f"rank 1 on {lab.hosts[0].name} was ended by signal 9 (SIGKILL)" in output


def test_ctrl_c_ends_every_process_on_every_host(lab: Lab, cli: Cli) -> None:
    first, second = (host.name for host in lab.hosts[:2])
    cli.without_torch()  # test_run_fsdp.py does the same to the real launchers
    cli.write(UP, processes_per_host={first: 2, second: 1})
    running = cli.start(names(lab, 2))
    running.until(lambda text: text.count("] up ") == 3)
    running.interrupt()
    started = time.monotonic()
    code, output = running.end()
    assert time.monotonic() - started < 30
    assert code == 130, output
    assert f"3 ranks on {first} (2), {second} (1)" in output
    assert "no process of the run is left on any host, port 29500 is free" in output


def test_a_killed_client_ends_the_run_after_the_timeout_where_that_is_wished(lab: Lab, cli: Cli) -> None:
    cli.without_torch()
    cli.write(UP, processes_per_host=2)
    running = cli.start(names(lab, 2), "--on-disconnect", "stop", "--disconnect-timeout", "4")
    running.until(lambda text: text.count("] up ") == 4)
    running.kill()
    assert running.end()[0] == -signal.SIGKILL
    _no_run_is_left(lab, 15)


@pytest.mark.parametrize("attached", [False, True], ids=["launched", "attached"])
def test_a_dead_host_stops_the_others(fresh_lab: FreshLab, tmp_path: Path, *, attached: bool) -> None:
    lab = fresh_lab(2)
    cli = Cli(lab, tmp_path / "home")
    cli.without_torch()
    cli.write(UP, processes_per_host=1)
    if attached:
        code, output = cli.run(names(lab, 2), "--detach")
        assert code == 0, output
    running = cli.attach(names(lab, 2)) if attached else cli.start(names(lab, 2))
    running.until(lambda text: text.count("] up ") == 2)
    time.sleep(3)  # a question to each host is answered: whom it reaches while all is well
    lab.hosts[1].halt()
    started = time.monotonic()
    code, output = running.end()
    assert time.monotonic() - started < 90
    assert code == 5, output
    assert f"{lab.hosts[0].name}, which could connect to it before, gets no answer from it either" in output
    assert lab.hosts[0].strays_after(8.0) == {}


def test_an_unreachable_host_is_code_3_and_nothing_starts(lab: Lab, cli: Cli) -> None:
    cli.write(TRAIN, processes_per_host=1)
    network.cut(lab.hosts[1])
    try:
        code, output = cli.run(names(lab, 2))
    finally:
        network.restore(lab.hosts[1])
    assert code == 3, output
    assert not (cli.home / "gpulaunch-runs").exists()


def test_a_script_that_chooses_another_precision_is_stopped(lab: Lab, cli: Cli) -> None:
    asked = "__import__('os').popen('echo bf16').read().strip()"  # which reading the script does not decide
    cli.write(WAIT.replace("Accelerator()", f"Accelerator(mixed_precision={asked})"), processes_per_host=1)
    code, output = cli.run(names(lab, 1))
    assert code == 4, output
    assert "mixed precision is bf16 instead of no" in output
