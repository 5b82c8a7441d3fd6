"""The interpreter of a command, on this machine and on hosts that hosts.yaml gives none."""

from pathlib import Path

import pytest

from launcher.config.command_python import choose_pythons
from launcher.config.inventory import HostEntry
from launcher.config.inventory_reader import load_inventory
from launcher.config.run_config import build_command_config

LOCAL = HostEntry("localhost", alias="localhost", in_inventory=False)


def pythons(line: str, *entries: HostEntry, workdir: str = "") -> tuple[list[str], str]:
    """Return the interpreter on each host, and what is said."""
    parsed = build_command_config([line]).command
    assert parsed is not None
    chosen, said = choose_pythons(parsed, entries, workdir)
    return [entry.python for entry in chosen], said


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
    (local, host), said = pythons(line, LOCAL, HostEntry("titan"))
    assert local == (f"{tmp_path}/{python}" if python else "python3")
    assert host == (on_hosts or "python3")
    assert (f"{host} on titan" in said) is (host == "python3")


@pytest.mark.parametrize(
    ("line", "on_host"),
    [
        ("source env/bin/activate && torchrun train.py", "env/bin/python"),
        ("cd lib && source ../env/bin/activate && torchrun train.py", "env/bin/python"),
        ("cd lib && bin/torchrun train.py", "lib/bin/python"),
        ("cd lib && conda run -p env torchrun train.py", "lib/env/bin/python"),
        ("uv run torchrun train.py", ".venv/bin/python"),
        ("cd lib && uv run torchrun train.py", ".venv/bin/python"),
        ("cd own && uv run torchrun train.py", "own/.venv/bin/python"),
        ("uv run --directory own torchrun train.py", "own/.venv/bin/python"),
        ("cd own && uv run --project ../lib torchrun train.py", ".venv/bin/python"),
        ("export UV_PROJECT_ENVIRONMENT=env; uv run torchrun train.py", "env/bin/python"),
        ("poetry run torchrun train.py", ".venv/bin/python"),
        ("pixi run torchrun train.py", ".pixi/envs/default/bin/python"),
    ],
)
def test_an_environment_of_the_project_is_below_the_working_directory_of_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, on_host: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (".venv", "own/.venv", "lib"):
        (tmp_path / folder).mkdir(parents=True)
    entries = (HostEntry("a", workdir="~/w"), HostEntry("b", python="/v/python", names_python=True))
    assert pythons(line, *entries) == ([f"~/w/{on_host}", "/v/python"], "")
    assert pythons(line, HostEntry("a"), workdir="/data/w")[0] == [f"/data/w/{on_host}"]
    assert pythons(line, HostEntry("a"))[0] == ["python3"], "where the project is on it is not known"


def test_an_interpreter_that_hosts_yaml_names_wins_be_it_python3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").touch()
    text = "hosts: {a: {python: python3}, b: {}, localhost: {%s}}\n"
    (tmp_path / "hosts.yaml").write_text(text % "")
    of_each = ["python3", "/w/.venv/bin/python", f"{tmp_path}/.venv/bin/python"]
    entries = load_inventory(tmp_path / "hosts.yaml").resolve(["a", "b", "localhost"])
    assert pythons("uv run torchrun train.py", *entries, workdir="/w") == (of_each, "")
    (tmp_path / "hosts.yaml").write_text("defaults: {python: python3}\n" + text % "python: python3")
    inventory = load_inventory(tmp_path / "hosts.yaml")
    entries = inventory.resolve(["a", "b", "localhost", "unlisted"])
    assert pythons("uv run torchrun train.py", *entries, workdir="/w") == (["python3"] * 4, "")


def test_an_unlisted_node_of_a_job_has_the_interpreter_of_the_command(tmp_path: Path) -> None:
    ours = HostEntry("n1", python="/opt/gpulaunch/bin/python", in_inventory=False)
    line = "source /opt/venv/bin/activate && torchrun train.py"
    assert pythons(line, ours, workdir=str(tmp_path)) == (["/opt/venv/bin/python"], "")


def test_an_environment_that_a_tool_names_by_a_hash_is_said_not_to_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    found, said = pythons("poetry run torchrun train.py", LOCAL, HostEntry("a", workdir="~/w"))
    assert found == ["python3", "python3"]
    assert said == (
        "the ranks run python3 on localhost, python3 on a: gpulaunch does not know the interpreter of poetry"
        " on these hosts; write its path as python: in hosts.yaml"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))  # as in `poetry run gpulaunch run ...`
    assert pythons("poetry run torchrun train.py", LOCAL) == ([f"{tmp_path}/bin/python"], "")
