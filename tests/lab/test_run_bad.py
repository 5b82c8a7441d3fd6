"""What `gpulaunch run` does with bad input: absent scripts, full disks, wild output."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import FreshLab
from tests.lab.hosts import Lab
from tests.lab.run_cli import Cli

pytestmark = pytest.mark.lab

WILD = r"""
import os, sys
os.write(1, b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\n")
os.write(1, bytes(range(256)) * 4 + b"\n")
os.write(2, b"\xff\xfe not utf-8 \xc3(\n")
os.write(1, b"no end of line, " * 20000 + b"\n")
for n in range(50_000):
    os.write(1, b"line %d\n" % n)
print("the last one", flush=True)
"""


@pytest.fixture
def cli(lab: Lab, tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(lab, tmp_path / "home")
    cli.without_torch()  # about input and disks; tests/lab/test_run.py trains
    yield cli
    cli.close()


def test_wild_output_arrives_whole_in_the_log_and_tame_on_the_screen(lab: Lab, cli: Cli) -> None:
    host = lab.hosts[0].name
    cli.write(WILD, processes_per_host=1)
    code, output = cli.run(host, timeout_s=150)
    assert code == 0, output[-3000:]
    shown = re.findall(r"r0\] line (\d+)$", output, re.MULTILINE)
    assert shown == [str(n) for n in range(50_000)]
    assert "the last one" in output
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", output)
    log = Path(cli.home, cli.outcome()["logs"], host, "rank-0.log").read_bytes()
    assert log.startswith(b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\n" + bytes(range(256)) * 4)
    assert b"\xff\xfe not utf-8 \xc3(\n" in log
    assert log.endswith(b"line 49999\nthe last one\n")


def test_a_script_that_one_host_lacks_is_named_before_anything_starts(lab: Lab, cli: Cli) -> None:
    first, second = lab.hosts[:2]
    first.run(["sh", "-c", "echo 'print(1)' > /root/only_here.py"])
    config = {"script": "only_here.py", "workdir": "/root", "gpus": "none", "precision": "no"}
    (cli.home / "job.yaml").write_text(json.dumps(config))
    code, output = cli.run(f"{first.name},{second.name}")
    assert code == 1, output
    assert f"on {second.name}" in output
    assert "only_here.py" in output
    assert f"on {first.name} only_here.py" not in output
    assert "nothing was started" in output
    assert not (cli.home / "gpulaunch-runs").exists()


def test_arguments_full_of_metacharacters_are_not_read_by_any_shell(lab: Lab, cli: Cli) -> None:
    words = ["$(touch /root/hacked)", "`touch /root/hacked`", "; touch /root/hacked", "{run_dir}", "--", "-m"]
    words += [
        "a\nb",
        "\t",
        "%s",
        "\\n",
        "#",
        "~",
        "!",
        "&",
        "|",
        "<",
        ">",
        "*",
        "?",
        "[a]",
        "é",
        "'",
        '"',
        "",
    ]
    cli.write("import sys, json; print(json.dumps(sys.argv[1:]), flush=True)\n", processes_per_host=1)
    code, output = cli.run(lab.hosts[1].name, "--", *words)
    assert code == 0, output
    log = Path(cli.home, cli.outcome()["logs"], lab.hosts[1].name, "rank-0.log").read_text()
    assert json.loads(log.splitlines()[0]) == words
    assert lab.hosts[1].run(["ls", "/root"]).stdout.count("hacked") == 0


def test_wrong_types_are_told_all_at_once_and_nothing_is_asked(lab: Lab, cli: Cli) -> None:
    cli.write("print(1)\n", processes_per_host={"x": "many"}, main_port="no", env=[1], args={"a": 1})
    code, output = cli.run(lab.hosts[0].name)
    assert code == 2, output
    for key in ("processes_per_host", "main_port", "env", "args"):
        assert key in output
    assert "host in" not in output


@contextmanager
def full_disk(place: Path, size: str) -> Iterator[Path]:
    """A small file system of its own."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_fills_up_here_ends_no_run(lab: Lab, cli: Cli, tmp_path: Path) -> None:
    host = lab.hosts[0]
    cli.write("for n in range(3000): print('x' * 200, n, flush=True)\n", processes_per_host=1)
    with full_disk(tmp_path / "small", "256k") as small:
        code, output = cli.run(host.name, "--logs", str(small / "runs"))
    assert code == 0, output[-2000:]
    assert (
        len(
            re.findall(
                r"local logs are no longer written \(No space left on device: \S*/rank-0\.log\)", output
            )
        )
        == 1
    )
    assert re.search(
        r"the local logs are not complete .* the hosts keep all: gpulaunch fetch \S+", output[-2000:]
    )
    assert "x 2999\n" in output
    assert host.strays_after() == {}


def test_a_log_directory_that_cannot_be_written_starts_nothing(lab: Lab, cli: Cli) -> None:
    host = lab.hosts[0]
    (cli.home / "file").write_text("")
    cli.write("print('begun', flush=True)\n", processes_per_host=1)
    code, output = cli.run(host.name, "--logs", str(cli.home / "file" / "runs"))
    assert code in (2, 5), output
    assert "begun" not in output
    assert "Traceback" not in output
    assert host.strays_after() == {}


def test_a_full_disk_there_is_told_by_the_host(fresh_lab: FreshLab, tmp_path: Path) -> None:
    lab = fresh_lab(1)
    host = lab.hosts[0]
    host.run(
        ["sh", "-c", "mkdir -p /root/.local/state && mount -t tmpfs -o size=16k tmpfs /root/.local/state"]
    )
    cli = Cli(lab, tmp_path / "home")
    cli.without_torch()
    cli.write("print('begun', flush=True)\n", processes_per_host=1)
    code, output = cli.run(host.name)
    assert code == 1, output
    assert f"DISK002 on {host.name} run_dir" in output
    code, output = cli.run(host.name, "--ignore", "DISK002")
    cli.close()
    assert code == 5, output
    assert host.name in output
    assert "No space left" in output
    assert "begun" not in output
    assert host.strays_after() == {}


def test_an_output_directory_that_cannot_be_written_stops_the_launch(lab: Lab, cli: Cli) -> None:
    host = lab.hosts[0]
    host.run(["sh", "-c", "touch /root/taken"])
    cli.write("print('begun', flush=True)\n", processes_per_host=1, workdir="/root", output="taken/here")
    code, output = cli.run(host.name)
    host.run(["rm", "-f", "/root/taken"])
    assert code == 1, output
    assert "/root/taken" in output
    assert "begun" not in output
