"""Every command that reports or acts has one document with --json; logs -n, and hosts given either way."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from launcher import cli
from launcher.onhost.supervisor.requests._logs import find_last_lines
from tests.launcher.terminal import Home

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPT = "for n in range(3000): print('line', n)\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A home with one run that is over."""
    home = Home(tmp_path_factory.mktemp("answers") / "home")
    home.launch(SCRIPT, "train-20261122-100001-aaaaaa")
    yield home
    home.end_all()


def document(home: Home, *words: str, code: int = 0) -> dict[str, Any]:
    done = home.gpulaunch(*words, "--json")
    assert done.returncode == code, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["exit_code"] == code
    return found


def test_logs_as_a_document_hold_the_last_lines(home: Home) -> None:
    found = document(home, "logs", "-n", "2", "--rank", "0")
    (log,) = found["logs"]
    assert (found["schema"], found["run_id"]) == ("gpulaunch.logs/1", "train-20261122-100001-aaaaaa")
    assert (log["host"], log["log"], log["text"]) == ("localhost", "rank-0.log", "line 2998\nline 2999\n")
    assert found["unreachable"] == {}


def test_stop_and_fetch_say_of_each_host_how_it_went(home: Home) -> None:
    stopped = document(home, "stop", "train-20261122-100001-aaaaaa")
    (node,) = stopped["nodes"]
    assert (node["host"], node["ended"], node["ranks"], node["error"]) == ("localhost", True, {"0": 0}, None)
    fetched = document(home, "fetch", "train-20261122-100001-aaaaaa")
    (host,) = fetched["hosts"]
    assert (host["host"], host["skipped"], host["error"]) == ("localhost", [], None)
    assert (home.home / fetched["directory"] / "localhost" / "rank-0.log").is_file()
    assert (stopped["schema"], fetched["schema"]) == ("gpulaunch.stop/1", "gpulaunch.fetch/1")
    assert document(home, "report", fetched["run_id"])["run_id"] == fetched["run_id"]


def test_stop_without_a_name_asks_about_no_run_that_has_ended(home: Home) -> None:
    stopped = document(home, "stop")
    assert (stopped["run_id"], stopped["nodes"]) == (None, [])


def test_a_recording_is_of_one_host_given_either_way(home: Home) -> None:
    found = document(home, "record", "--hosts", "localhost", "-o", "facts.json")
    assert (found["file"], found["host"], found["masked"]) == ("facts.json", "localhost", False)
    kept = json.loads((home.home / "facts.json").read_text())
    assert (found["schema"], kept["schema"]) == ("gpulaunch.recording/1", "gpulaunch.record/1")
    assert home.gpulaunch("record", "localhost", "-o", "facts.json", "--force").returncode == 0


def test_a_document_has_the_exit_code_of_its_command(home: Home) -> None:
    assert document(home, "ps")["schema"] == "gpulaunch.runs/1"
    assert document(home, "ps", "root@127.0.0.1:1", code=3)["exit_code"] == 3
    (home.home / "bad.py").write_text("x = (\n")
    assert document(home, "lint", "bad.py", code=1)["exit_code"] == 1
    (home.home / "train.log").write_text("step 1 loss 2.5\n")
    assert document(home, "checks")["schema"] == "gpulaunch.checks/1"
    for words in (("explain", "GPU001"), ("diagnose", "train.log")):
        document(home, *words)


def test_deleting_needs_a_yes_and_says_what_went(home: Home) -> None:
    refused = document(home, "rm", "train-20261122-100001-aaaaaa", code=2)
    assert refused["error"]["code"] == "no-answer"
    kept = document(home, "prune", "--older-than", "30d", "--yes", "--hosts", "localhost")
    assert (kept["schema"], kept["runs"]) == ("gpulaunch.removal/1", [])
    gone = document(home, "rm", "train-20261122-100001-aaaaaa", "--yes")
    assert gone["runs"] == [
        {
            "run_id": "train-20261122-100001-aaaaaa",
            "hosts": [{"host": "localhost", "removed": True, "error": None}],
        }
    ]


@pytest.mark.parametrize(
    ("text", "lines", "shown"),
    [
        (b"", 3, b""),
        (b"a\nb\nc\n", 0, b""),
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\n", 9, b"a\nb\n"),
        (b"\n\n\n", 1, b"\n"),
        (b"x" * 300_000 + b"\ny\n", 1, b"y\n"),
        (b"w\n" + b"x" * 300_000 + b"\ny\n", 2, b"x" * 300_000 + b"\ny\n"),
    ],
)
def test_the_last_lines_of_a_log_are_found_from_its_end(
    text: bytes, lines: int, shown: bytes, tmp_path: Path
) -> None:
    (tmp_path / "rank-0.log").write_bytes(text)
    begin = find_last_lines(str(tmp_path), "rank-0.log", len(text), lines)
    assert text[begin:] == shown


@pytest.mark.parametrize(
    ("words", "begun", "found"),
    [
        (["preflight"], "ti", ["titan"]),
        (["fetch", "--host"], "ti", ["titan"]),
        (["ps", "--hosts"], "titan,l40s-0", ["titan,l40s-01", "titan,l40s-02"]),
        (["run", "-c"], "my", ["my-train"]),
        (["run", "--ignore"], "DISK00", ["DISK001", "DISK002", "DISK003", "DISK004"]),
        (["explain"], "R1", ["R1"]),
        (["logs"], "la", ["last"]),
        (["logs"], "my-run", ["my-run-1"]),
    ],
)
def test_hosts_configs_codes_and_runs_complete(
    words: list[str], begun: str, found: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "hosts.yaml").write_text("hosts: {titan: {}, 'l40s-[01-02]': {}}\n")
    (tmp_path / "gpulaunch").mkdir()
    (tmp_path / "gpulaunch" / "my-train.yaml").write_text("script: a.py\n")
    records = tmp_path / "state" / "gpulaunch" / "launches"
    records.mkdir(parents=True)
    (records / "my-run-1.json").write_text("{}")
    completion = ShellComplete(cli.cli, {}, "gpulaunch", "_GPULAUNCH_COMPLETE")
    assert [item.value for item in completion.get_completions(words, begun)] == found


def test_a_broken_hosts_file_completes_to_nothing_and_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: [\n")
    done = subprocess.run(
        [sys.executable, "-m", "launcher.cli"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_LAUNCHER_CLI_COMPLETE": "bash_complete",
            "_GPULAUNCH_COMPLETE": "bash_complete",
            "COMP_WORDS": "gpulaunch preflight ti",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
