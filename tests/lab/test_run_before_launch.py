"""`gpulaunch run` on a host where dead runs left something: offered to be ended, ended, checked again."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import torchless
from tests.lab.client import Client
from tests.lab.hosts import Lab, LabHost
from tests.lab.leftovers import COMPUTE, ROOT, alive, orphan

pytestmark = pytest.mark.lab


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    with Lab.up("titan", tmp_path / "lab", profiles=["2xl40s-exclusive"]) as lab:
        client = Client(lab, tmp_path / "home")
        python = lab.hosts[0].put(f"/usr/local/bin/{torchless.NAME}", torchless.WRAPPER, mode=0o755)
        client.write({"titan": {"workdir": "/root", "python": python}})
        (client.home / "train.py").write_text("print('begun', flush=True)\n")
        job = {"script": "train.py", "send_script": True, "gpus": "all", "precision": "no"}
        job["engine"] = "accelerate"
        (client.home / "job.yaml").write_text(json.dumps(job))
        yield client


def run(client: Client, *words: str) -> tuple[int, str]:
    done = client.run("run", "--config", "./job.yaml", "--hosts", "titan", *words)
    return done.returncode, done.stdout.decode() + done.stderr.decode()


def own_leftover(host: LabHost) -> int:
    """A rank of a run of gpulaunch whose supervisor and launcher are gone."""
    mark_of = "from launcher.onhost.supervisor.processes import mark_of; print(mark_of(999999, 1))"
    mark = host.run([sys.executable, "-c", mark_of], env={"PYTHONPATH": str(ROOT)}).stdout.strip()
    env = {"GPULAUNCH_RUN_ID": "old", "GPULAUNCH_SUPERVISOR": mark}
    words = [f"{name}={value}" for name, value in env.items()]
    code = (
        "import subprocess, sys, os\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, start_new_session=True)\n"
        "child.stdout.readline(); print(child.pid, flush=True); os._exit(0)\n"
    )
    argv = [
        "env",
        f"PYTHONPATH={ROOT}",
        "RANK=0",
        "LOCAL_RANK=0",
        *words,
        sys.executable,
        "-c",
        code,
        *COMPUTE,
    ]
    return int(host.run([*argv, "--gpu", "0", "--mib", "900"]).stdout)


def test_what_others_left_blocks_until_clean_is_given(client: Client) -> None:
    host = client.lab.hosts[0]
    left = orphan(host, "--gpu", "0", "--mib", "2000")
    code, output = run(client)
    assert code == 1, output
    assert "nothing was started: preflight found what stops this launch" in output
    assert "nothing was ended; --clean ends what is proven left over" in output
    assert f"pid {left}" in output
    assert alive(host, left)

    code, output = run(client, "--clean")
    assert f"titan: pid {left}: ended" in output
    assert "leftovers were ended; checking the hosts again" in output
    assert not alive(host, left)


def test_a_person_at_the_terminal_is_asked_and_answers(client: Client) -> None:
    host = client.lab.hosts[0]
    left = orphan(host, "--gpu", "0", "--mib", "2000")
    words = ("run", "--config", "./job.yaml", "--hosts", "titan")
    code, screen = client.at_terminal(["n"], *words)
    assert code == 1, screen
    assert "End 1 process? [y/N]: n" in screen
    assert alive(host, left)
    _, screen = client.at_terminal(["y"], *words)
    assert f"titan: pid {left}: ended" in screen
    assert "leftovers were ended; checking the hosts again" in screen
    assert not alive(host, left)


def test_what_a_dead_run_of_ones_own_left_is_ended_unasked(client: Client) -> None:
    host = client.lab.hosts[0]
    left = own_leftover(host)
    _, output = run(client)
    assert f"titan: pid {left}: ended" in output
    assert "checking the hosts again" in output
    assert not alive(host, left)


def test_a_dry_run_ends_nothing(client: Client) -> None:
    host = client.lab.hosts[0]
    left = own_leftover(host)
    code, output = run(client, "--dry-run", "--clean")
    assert code == 1, output
    assert "PROC001" in output
    assert "$ " in output, "the plan is printed all the same"
    assert alive(host, left)
    host.kill(left)
