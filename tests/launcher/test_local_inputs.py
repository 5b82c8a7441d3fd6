"""Paths in the arguments that exist on this machine."""

import threading
from pathlib import Path

import pytest

from launcher.config import run_config
from launcher.config.run_config import build_command_config, load_run_config

ARGS = "args: [--config, conf/x.yaml, --data, ./d, --set, conf/none.yaml]"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("gpulaunch", "conf", "src/d", "below"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "conf/x.yaml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "here"),
    [("", ("conf/x.yaml",)), ("sync: true", ("conf/x.yaml",)), ("sync: {from: src}", ("./d",))],
)
def test_ranks_look_where_the_tree_starts_and_not_where_the_run_config_lies(
    project: Path, monkeypatch: pytest.MonkeyPatch, text: str, here: tuple[str, ...]
) -> None:
    (project / "gpulaunch/train.yaml").write_text(f"script: train.py\n{ARGS}\n{text}\n")
    assert load_run_config("train").job.local_inputs == here
    monkeypatch.chdir(project / "below")
    assert load_run_config("train").job.local_inputs == here


@pytest.mark.usefixtures("project")
def test_a_command_that_enters_a_directory_looks_in_it() -> None:
    found = build_command_config(["cd src && torchrun train.py --config ../conf/x.yaml --data ./d"])
    assert found.job.local_inputs == ("../conf/x.yaml", "./d")


def test_a_dead_mount_of_this_machine_holds_nothing_up(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, real = threading.Event(), Path.exists

    def exists(path: Path) -> bool:
        return real(path) if path.name != "d" else answers.wait()

    monkeypatch.setattr(Path, "exists", exists)
    monkeypatch.setattr(run_config, "_LOCAL_LOOK_S", 0.05)
    (project / "gpulaunch/train.yaml").write_text(f"script: train.py\n{ARGS}\n")
    assert load_run_config("train").job.local_inputs == ("conf/x.yaml",), "what has answered until then"
    answers.set()
