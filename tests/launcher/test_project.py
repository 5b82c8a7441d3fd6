"""hosts.yaml and gpulaunch/ are found from a subdirectory, as far as git would look and no further."""

import os
from pathlib import Path

import pytest

from launcher.cli import run_command_line
from launcher.config.config_search import find_config
from launcher.config.inventory import HostEntry
from launcher.config.inventory_reader import load_inventory
from launcher.config.local_entries import require_linux, resolve_local_entries
from launcher.config.run_config import load_run_config
from launcher.errors import BadInput, ConfigError
from launcher.local.project import list_folders_up, local_runs_dir
from preflight.job import Job
from tests.launcher.run_plans import run_id


@pytest.fixture(name="deep")
def _deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand two folders below a project's root."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    root = tmp_path / "outer" / "project"
    (root / "src" / "deep").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "gpulaunch").mkdir()
    (root / "hosts.yaml").write_text("hosts: {titan: {identity_file: keys/k}}\n")
    (root / "gpulaunch" / "train.yaml").write_text(
        "script: train.py\nhosts: localhost\ngpus: none\nsync: true\n"
    )
    monkeypatch.chdir(root / "src" / "deep")
    return root


def test_files_of_the_project_are_found_from_below(deep: Path) -> None:
    inventory = load_inventory(None)
    assert inventory.path == Path("../../hosts.yaml")
    assert Path(inventory.hosts["titan"].identity_file).resolve() == deep / "keys/k"
    assert find_config("train") == find_config("train.yaml") == Path("../../gpulaunch/train.yaml")


def test_what_is_relative_starts_from_the_projects_folder(deep: Path) -> None:
    config = load_run_config("train")
    assert config.sync is not None
    assert Path(config.sync.source).resolve() == deep
    (entry,) = resolve_local_entries(load_inventory(None).resolve(["localhost"]), config.job, config.base)
    assert entry.workdir == str(deep)
    by_path = load_run_config("../../gpulaunch/train.yaml")
    assert by_path.sync is not None
    assert by_path.sync.source == "."
    (entry,) = resolve_local_entries(load_inventory(None).resolve(["localhost"]), by_path.job, by_path.base)
    assert entry.workdir == str(Path.cwd())


def test_the_nearest_counts(deep: Path) -> None:
    (deep / "src/hosts.yaml").write_text("hosts: {nearer: }\n")
    (deep / "src/gpulaunch").mkdir()
    (deep / "src/gpulaunch/train.yaml").write_text("script: other.py\n")
    assert list(load_inventory(None).hosts) == ["nearer"]
    assert load_run_config("train").job.script == "other.py"


def test_a_project_keeps_its_runs_in_one_place(deep: Path) -> None:
    assert local_runs_dir() == Path("../../gpulaunch-runs")
    (deep / "src/gpulaunch").mkdir()
    (deep / "src/gpulaunch/hosts.example.yaml").touch()  # a checkout of gpulaunch
    assert local_runs_dir() == Path("../../gpulaunch-runs")
    (deep / "src/gpulaunch-runs").mkdir()
    assert local_runs_dir() == Path("../gpulaunch-runs")
    (deep / "gpulaunch/train.yaml").unlink()
    (deep / "src/gpulaunch-runs").rmdir()
    assert local_runs_dir() == Path("gpulaunch-runs")


def test_a_report_of_the_last_run_is_found_from_below(deep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = run_id("r-1")
    log = deep / "gpulaunch-runs" / name / "titan" / "rank-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("step 1 loss 2.0\n")
    assert run_command_line(["report"]) == 0
    assert capsys.readouterr().out.startswith(f"{name}: ")
    assert run_command_line(["diagnose"]) == 0
    assert capsys.readouterr() == ("no failure found\n", f"last is {name}\n")


def test_nothing_is_looked_for_above_gits_root(deep: Path) -> None:
    (deep / "hosts.yaml").rename(deep.parent / "hosts.yaml")
    (deep / "gpulaunch").rename(deep.parent / "gpulaunch")
    assert load_inventory(None).path is None
    Path("train.yaml").touch()
    with pytest.raises(ConfigError, match='no run config "train"') as caught:
        find_config("train")
    assert caught.value.fix.startswith('did you mean "train.yaml"?')
    Path("configs").mkdir()
    Path("configs/my train.yaml").touch()
    with pytest.raises(ConfigError, match="no such file") as caught:
        find_config("configs/my train")
    assert caught.value.fix == "did you mean 'configs/my train.yaml'?"


def test_nothing_is_looked_for_above_home(deep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(deep / "src"))
    assert load_inventory(None).path is None


def test_a_folder_that_others_may_write_to_counts_only_where_one_stands_in_it(deep: Path) -> None:
    deep.chmod(0o777)
    assert load_inventory(None).path is None
    os.chdir(deep)
    assert load_inventory(None).path == Path("hosts.yaml")


def test_a_folder_of_another_user_counts_only_where_one_stands_in_it(
    deep: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(list_folders_up()) == 3
    monkeypatch.setattr(os, "geteuid", lambda: deep.stat().st_uid + 1)
    assert list_folders_up() == (Path(),)


def test_a_folder_that_is_gone_has_none_above(deep: Path) -> None:
    Path.cwd().rmdir()
    assert list_folders_up() == (Path(),)


def test_a_command_says_whose_hosts_it_takes(deep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line(["preflight", "titann-"])
    assert "hosts of ../../hosts.yaml\n" in capsys.readouterr().err
    os.chdir(deep)
    run_command_line(["preflight", "titann-"])
    assert "hosts of" not in capsys.readouterr().err


def test_a_mac_launches_on_other_hosts_and_not_on_itself() -> None:
    local, box = HostEntry("localhost"), HostEntry("box")
    assert resolve_local_entries((box,), Job(), platform="darwin") == (box,)
    with pytest.raises(BadInput, match="this machine runs macOS, and ranks run on Linux hosts only"):
        resolve_local_entries((box, local), Job(), platform="darwin")
    with pytest.raises(BadInput, match="this machine runs macOS") as refused:
        require_linux((local,), "gpulaunch clean-zombies HOST", platform="darwin")
    assert refused.value.fix == "gpulaunch clean-zombies HOST"
    require_linux((box,), platform="darwin")
