"""Where run configs are found, and what is said of one that is not."""

from pathlib import Path

import pytest

from launcher.config.config_search import find_config, list_configs
from launcher.errors import ConfigError


def write(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("script: train.py\n")
    return path


def test_places_are_searched_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)
    assert find_config("paper_r64").parent.name == "templates"
    user = write(tmp_path / "user/gpulaunch/paper_r64.yaml")
    assert find_config("paper_r64") == user
    write(tmp_path / "configs/paper_r64.yml")
    assert find_config("paper_r64") == Path("configs/paper_r64.yml")
    write(tmp_path / "gpulaunch/paper_r64.yaml")
    assert find_config("paper_r64") == Path("gpulaunch/paper_r64.yaml")
    assert list_configs()["paper_r64"] == Path("gpulaunch/paper_r64.yaml")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("paper_r46", 'did you mean "paper_r64"?'),
        ("no/such.yaml", "no such file"),
        ("", "the name of a run config is empty"),
        ("./", "this is a directory"),
        ("a\0b", "empty"),
    ],
)
def test_a_config_that_is_not_there_is_named(name: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_config(name)
    assert expected in f"{caught.value.message}\n{caught.value.fix}"
