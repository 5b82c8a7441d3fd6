"""`run --deep` on this machine's CPU: it measures first, and launches what nothing critical stops."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from launcher.cli import run_command_line
from launcher.commands import _deep
from launcher.deep.targets import DeepOptions
from launcher.exit_codes import ExitCode
from launcher.report.deep import DeepReport
from preflight.checks.runner import check_deep
from tests.field_notes.ranks import LIGHT, shimmed
from tests.preflight.deep_runs import deep_run
from tests.users import MAIN_PORT

pytestmark = [pytest.mark.train, pytest.mark.slow]
WORDS = "the script has run"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in shimmed(LIGHT).items():
        monkeypatch.setenv(name, value)
    job = {"command": "sh hello.sh", "hosts": ["localhost"], "gpus": "none", "main_port": MAIN_PORT}
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    (tmp_path / "hello.sh").write_text(f"echo {WORDS}\n")
    return tmp_path


def test_a_launch_is_measured_first_and_keeps_what_was_measured(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_deep, "DeepOptions", partial(DeepOptions, 0.2, 30.0))
    code = run_command_line(["run", "-c", "job.yaml", "--deep"])
    said = "".join(capfd.readouterr())
    assert code == 0, said
    assert said.index("matrix products: median") < said.index(WORDS)
    found = sorted(project.glob("gpulaunch-runs/*/deep.json"))
    assert len(found) == 2  # of the run that measured, and of the one that it was for
    document = json.loads(found[0].read_text())
    assert document == json.loads(found[1].read_text())
    assert document["schema"] == "gpulaunch.deep/1"
    assert [rank["host"] for rank in document["ranks"]] == ["localhost"]
    assert {value["name"] for value in document["values"]} >= {"gemm_tflops", "memory_gbs", "h2d_gbs"}
    assert document["ended"] == ""


def test_what_is_critical_stops_the_launch(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = deep_run(gpus=1, overlay={"0.memory.bad_words": 3})
    monkeypatch.setattr(_deep, "measure_hosts", lambda *_: DeepReport.of(wrong, check_deep(wrong)))
    code = run_command_line(["run", "-c", "job.yaml", "--deep"])
    said = "".join(capfd.readouterr())
    assert code == ExitCode.NEGATIVE, said
    assert "3 words of its memory came back changed" in said
    assert WORDS not in said
    assert not (project / "gpulaunch-runs").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("run -c job.yaml --deep", "==> no run was started"),
        ("preflight --gpus none --deep", "matmul not measured: stopped in the step matmul: Ctrl-C"),
        ("bench --gpus none", "fix of these "),
        ("bench --gpus none --json", '"exit_code": 130'),
    ],
)
def test_a_measurement_that_was_stopped_is_no_fault_of_a_host(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], command: str, said: str
) -> None:
    part = {"0.matmul": None, "0.begun": ["join", "memory", "matmul"], "0.digest": None, "0.copy": None}
    stopped = replace(deep_run(gpus=1, overlay=part), ended="Ctrl-C", stopped=True)
    monkeypatch.setattr(_deep, "measure_hosts", lambda *_: DeepReport.of(stopped, check_deep(stopped)))
    assert run_command_line(command.split()) == ExitCode.INTERRUPTED
    printed = "".join(capfd.readouterr())
    assert said in printed
    assert WORDS not in printed
    assert not (project / "gpulaunch-runs").exists()
