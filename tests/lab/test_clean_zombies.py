"""clean-zombies on simulated hosts: real processes in PID namespaces, simulated GPUs, a live run beside."""

import json
import os
import signal
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FreshLab
from tests.lab.client import Client
from tests.lab.hosts import Lab, LabProcess
from tests.lab.leftovers import COMPUTE, RANK, ROOT, alive, found, gpulaunch, holder, orphan, until

pytestmark = pytest.mark.lab


@pytest.fixture
def titan(fresh_lab: FreshLab) -> Lab:
    return fresh_lab("titan", profiles=["2xl40s"])


@pytest.fixture
def live_run(titan: Lab) -> Iterator[LabProcess]:
    """torchrun's shape: a launcher that lives under nobody, and a rank of it that holds GPU 1."""
    code = "import subprocess, sys; subprocess.Popen(sys.argv[3:]).wait()"
    host = titan.hosts[0]
    env = {"PYTHONPATH": str(ROOT), **RANK, "TORCHELASTIC_RUN_ID": "live"}
    launcher = host.popen(
        [sys.executable, "-c", code, "-m", "torch.distributed.run", *COMPUTE, "--gpu", "1", "--mib", "700"],
        env=env,
    )
    launcher.read_line()
    yield launcher
    assert launcher.poll() is None, "the live run beside must not notice"
    launcher.kill()
    launcher.close()


def test_orphans_and_half_dead_end_and_the_live_run_beside_them_does_not(
    titan: Lab, live_run: LabProcess, tmp_path: Path
) -> None:
    host = titan.hosts[0]
    left = orphan(host, "--gpu", "0", "--mib", "2000")
    stubborn = orphan(host, "--gpu", "0", "--mib", "1000", "--ignore-term")
    half_dead = holder(host, "--gpu", "0", "--zombie-leader")
    shown = gpulaunch(titan, "clean-zombies", "titan", "--dry-run", "--json", home=tmp_path)
    assert shown.returncode == 1, shown.stderr
    before = found(shown)
    assert before[left]["class"] == "orphan"
    assert before[left]["gpus"] == [0]
    assert before[half_dead.pid]["class"] == "half-dead"
    assert alive(host, left)
    done = gpulaunch(titan, "clean-zombies", "titan", "--yes", "--grace", "1", "--json", home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    cleaned = document["hosts"]["titan"]["cleaned"]
    results = {each["pid"]: each for each in cleaned["killed"]}
    assert document["schema"] == "gpulaunch.clean/1"
    assert set(results) == {left, stubborn, half_dead.pid}
    assert results[stubborn]["signals"] == ["SIGTERM", "SIGCONT", "SIGKILL"]
    assert not alive(host, left)
    gpu0, gpu1 = cleaned["gpus"]
    assert gpu0["before_mib"] - gpu0["after_mib"] >= 3000
    assert gpu1["before_mib"] == gpu1["after_mib"] >= 700
    assert (tmp_path / f"state/gpulaunch/audit-{os.uname().nodename}.jsonl").read_text().count('"ended"') == 3
    half_dead.close()


@pytest.mark.parametrize(
    ("number", "pauses"),
    # into the report, and into the interpreter's end; timeout sends its second SIGTERM at once
    [(signal.SIGINT, (0.0005, 0.004)), (signal.SIGTERM, (0.0, 0.0002))],
)
def test_two_signals_in_the_grace_are_one_and_its_report_is_whole(
    titan: Lab, tmp_path: Path, number: signal.Signals, pauses: tuple[float, ...]
) -> None:
    host, client = titan.hosts[0], Client(titan, tmp_path / "home")
    for pause_s in pauses:
        orphan(host, "--gpu", "0", "--ignore-term")
        audit = host.path(f"/root/.local/state/gpulaunch/audit-{host.name}.jsonl")
        audit.unlink(missing_ok=True)
        with client.start("clean-zombies", "titan", "--yes", "--grace", "2", "--json") as process:
            assert until(audit.exists, 30.0)
            process.send_signal(number)
            time.sleep(pause_s)
            process.send_signal(number)
            out, err = process.communicate(timeout=30.0)
        assert (process.returncode, err) == (130, b""), out
        document = json.loads(out)
        assert [each["code"] for each in document["errors"]] == ["interrupted"]
        assert until(lambda: not host.strays(), 10.0), "the host has ended what it was asked to end"


def test_forked_workers_that_the_driver_does_not_name_are_found(titan: Lab, tmp_path: Path) -> None:
    host = titan.hosts[0]
    process = host.popen(
        [*COMPUTE, "--gpu", "0", "--mib", "4000", "--workers", "3", "--exit-after-fork"],
        env={"PYTHONPATH": str(ROOT)},
    )
    process.wait()
    done = gpulaunch(titan, "clean-zombies", "titan", "--yes", "--json", home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cleaned = json.loads(done.stdout)["hosts"]["titan"]["cleaned"]
    assert len(cleaned["killed"]) == 3
    assert cleaned["gpus"][0]["before_mib"] - cleaned["gpus"][0]["after_mib"] >= 4000
    process.close()


def test_nothing_ends_without_a_yes(titan: Lab, tmp_path: Path) -> None:
    host = titan.hosts[0]
    left = orphan(host, "--gpu", "0")
    answer = gpulaunch(titan, "clean-zombies", "titan", home=tmp_path)
    assert answer.returncode == 1
    assert "add --yes" in answer.stdout
    assert alive(host, left)


def test_a_yes_at_a_terminal_ends_what_was_shown_and_a_no_does_not(titan: Lab, tmp_path: Path) -> None:
    client = Client(titan, tmp_path / "home")
    host = titan.hosts[0]
    left = orphan(host, "--gpu", "0", "--mib", "2000")
    code, screen = client.at_terminal(["n"], "clean-zombies", "titan")
    assert code == 1, screen
    assert "End 1 process? [y/N]: n" in screen
    assert "1 left as they are" in screen
    assert alive(host, left)
    code, screen = client.at_terminal(["y"], "clean-zombies", "titan")
    assert code == 0, screen
    assert f"pid {left}: ended" in screen
    assert not alive(host, left)


def test_a_strangers_processes_are_named_and_kept(titan: Lab, tmp_path: Path) -> None:
    host = titan.hosts[0]
    other = holder(host, "--gpu", "0", user="bob", env=RANK)
    answer = gpulaunch(
        titan, "clean-zombies", "titan", "--yes", "--pid", str(other.pid), "--json", home=tmp_path
    )
    assert answer.returncode == 1, answer.stderr
    each = found(answer)[other.pid]
    assert (each["class"], each["action"], each["advice"]) == ("foreign", "keep", "ask bob")
    assert alive(host, other.pid)
    other.kill()
    other.close()


def test_a_port_held_by_a_forked_worker_comes_free(titan: Lab, tmp_path: Path) -> None:
    host = titan.hosts[0]
    code = textwrap.dedent(
        """
        import os, socket, time
        server = socket.socket()
        server.bind(("0.0.0.0", 29500)); server.listen()
        if os.fork() == 0:
            open("/proc/self/comm", "w").write("pt_data_worker")
            print(os.getpid(), flush=True)
            time.sleep(600)
        time.sleep(0.3)
        """
    )
    process = host.popen([sys.executable, "-c", code])
    worker = int(process.read_line())
    process.wait()
    done = gpulaunch(titan, "clean-zombies", "titan", "--yes", "--port", "29500", "--json", home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cleaned = json.loads(done.stdout)["hosts"]["titan"]["cleaned"]
    assert [each["pid"] for each in cleaned["killed"]] == [worker]
    assert cleaned["ports_freed"] == [29500]
    process.close()


def test_a_true_zombie_is_explained_and_its_parent_left_alone(titan: Lab, tmp_path: Path) -> None:
    host = titan.hosts[0]
    code = "import os, time; pid = os.fork() or os._exit(0); print(pid, flush=True); time.sleep(600)"
    parent = host.popen([sys.executable, "-c", code])
    dead = int(parent.read_line())
    assert until(lambda: host.state(dead) == "Z")
    answer = gpulaunch(titan, "clean-zombies", "titan", "--yes", "--json", home=tmp_path)
    each = found(answer)[dead]
    assert each["class"] == "zombie"
    assert f"pid {parent.pid}" in " ".join(each["evidence"])
    assert answer.returncode == 0
    assert alive(host, parent.pid)
    parent.kill()
    parent.close()


def test_a_stopped_holder_ends_only_when_it_is_old_or_named(titan: Lab, tmp_path: Path) -> None:
    host = titan.hosts[0]
    stopped = holder(host, "--gpu", "0", "--stop")
    assert until(lambda: host.state(stopped.pid) == "T")
    young = gpulaunch(titan, "clean-zombies", "titan", "--yes", "--json", home=tmp_path)
    assert young.returncode == 0
    assert found(young)[stopped.pid]["action"] == "keep"
    named = gpulaunch(titan, "clean-zombies", "titan", "--yes", "--pid", str(stopped.pid), home=tmp_path)
    assert named.returncode == 0, named.stdout
    assert not alive(host, stopped.pid)
    stopped.close()


def test_a_host_that_is_down_costs_the_others_nothing(titan: Lab, tmp_path: Path) -> None:
    left = orphan(titan.hosts[0], "--gpu", "0")
    dead = f"root@{titan.dead_address()}"
    answer = gpulaunch(titan, "clean-zombies", "titan", dead, "--yes", "--json", home=tmp_path)
    assert answer.returncode == 3
    document = json.loads(answer.stdout)
    assert [error["host"] for error in document["errors"]] == [dead]
    assert document["hosts"]["titan"]["cleaned"]["complete"]
    assert not alive(titan.hosts[0], left)
