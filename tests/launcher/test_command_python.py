"""The interpreter of a command, on this machine and on hosts that hosts.yaml gives none."""

from pathlib import Path

import pytest

from launcher.config.command_python import find_python_of_hosts, find_python_of_line
from launcher.config.run_config import build_command_config


@pytest.mark.parametrize(
    ("line", "python", "on_hosts"),
    [
        ("source env/bin/activate && torchrun train.py", "env/bin/python", ""),
        ("source ~/env/bin/activate && torchrun train.py", "env/bin/python", "~/env/bin/python"),
        ("env/bin/torchrun train.py", "env/bin/python", ""),
        ("~/env/bin/torchrun train.py", "env/bin/python", "~/env/bin/python"),
        ("conda run -p env torchrun train.py", "env/bin/python", ""),
        ("uv run --project env python train.py", "env/.venv/bin/python", ""),
        ("pixi run -e gpu python train.py", ".pixi/envs/gpu/bin/python", ""),
        ("conda activate none && python train.py", "", ""),
        ("source miniforge3/bin/activate && python train.py", "miniforge3/bin/python", ""),
        ("source miniforge3/bin/activate base && python train.py", "miniforge3/bin/python", ""),
        ("source miniforge3/bin/activate llm && python train.py", "miniforge3/envs/llm/bin/python", ""),
        ("source miniforge3/bin/activate none && python train.py", "", ""),
        (
            "conda activate llm && python train.py",
            "miniforge3/envs/llm/bin/python",
            "~/miniforge3/envs/llm/bin/python",
        ),
        ("source /v/bin/activate && python train.py", "", "/v/bin/python"),
    ],
)
def test_a_command_runs_with_the_interpreter_that_it_enters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, python: str, on_hosts: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    conda = ("miniforge3/bin", "miniforge3/envs/llm/bin")
    for folder in ("env/bin", "env/.venv/bin", ".pixi/envs/gpu/bin", *conda):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "python").touch()
    parsed = build_command_config([line]).command
    assert parsed is not None
    assert find_python_of_line(parsed) == (f"{tmp_path}/{python}" if python else "")
    assert find_python_of_hosts(parsed) == on_hosts
