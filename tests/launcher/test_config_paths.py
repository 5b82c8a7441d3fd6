"""Paths and patterns of a run config that mean another thing than was written."""

from pathlib import Path

import pytest

from launcher.config.config_overrides import Overrides
from launcher.config.run_config import RunConfig, load_run_config
from launcher.errors import ConfigError

MISTAKES: dict[str, tuple[str, str]] = {
    "script with its arguments": (
        "script: train.py --lr 1e-4",
        "script: its arguments go under args: (write script: train.py and args: [--lr, 1e-4])",
    ),
    "home as output": (
        "script: a\noutput: ~/",
        "output: ~/ is the whole home directory: name a directory of",
    ),
    "nothing as output": ("script: a\noutput: ~", "expected a directory of the script's own on the host"),
    "root as output": ("script: a\noutput: /x/..", "output: /x/.. is everything on the host"),
    "patterns in one text": (
        "script: a\nsync: {exclude: '*.ckpt data/'}",
        'sync.exclude: expected a list, each a pattern as in .gitignore (write ["*.ckpt", "data/"]; one with',
    ),
}


def load(text: str, folder: Path) -> RunConfig:
    path = folder / "x.yaml"
    path.write_text(text)
    return load_run_config(str(path), Overrides())


@pytest.mark.parametrize("name", MISTAKES)
def test_a_path_that_cannot_be_meant_is_refused(name: str, tmp_path: Path) -> None:
    text, expected = MISTAKES[name]
    with pytest.raises(ConfigError) as caught:
        load(text, tmp_path)
    assert expected in caught.value.message


def test_names_with_blanks_are_names(tmp_path: Path) -> None:
    config = load(
        "script: my train.py\noutput: my runs\nsync: {include: my data, exclude: ['a b']}", tmp_path
    )
    assert (config.job.script, config.job.output) == ("my train.py", "my runs")
    assert config.sync is not None
    assert (config.sync.include, config.sync.exclude) == (("my data",), ("a b",))
