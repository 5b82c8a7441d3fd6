"""The command line that a finding about the script's arguments offers."""

import pytest

from launcher.commands.run import command
from preflight.checks.script_args import OWN_OPTIONS, OWN_SWITCHES, TypedCommand


def test_gpulaunch_knows_its_own_options() -> None:
    options = {word: param for param in command.params for word in param.opts if word.startswith("-")}
    switches = {word for word, param in options.items() if getattr(param, "is_flag", False)}
    assert switches == OWN_SWITCHES
    assert set(options) - switches == OWN_OPTIONS


@pytest.mark.parametrize(
    ("typed", "old", "new", "line"),
    [
        ("gpulaunch run a.py -- --lr 1", "--lr", "--rate", "gpulaunch run a.py -- --rate 1"),
        ("gpulaunch run a.py -- --lr=1", "--lr", "--rate", "gpulaunch run a.py -- --rate=1"),
        ("gpulaunch run a.py -- --lr=1", "1", "2", "gpulaunch run a.py -- --lr=2"),
        (
            "gpulaunch run a.py -- --token=t --lr 1",
            "--lr",
            "--rate",
            "gpulaunch run a.py -- '--token=***' --rate 1",
        ),
        ("gpulaunch run --name lr a.py", "lr", "rate", ""),  # gpulaunch's own
    ],
)
def test_a_word_of_the_script_is_replaced(typed: str, old: str, new: str, line: str) -> None:
    words = TypedCommand(tuple(typed.split()))
    assert words.replace(old, new) == bool(line)
    assert not line or words.with_command("fix") == f"fix: {line}"


@pytest.mark.parametrize(
    ("typed", "option", "line"),
    [
        ("gpulaunch run a.py -- --dry-run", "--dry-run", "gpulaunch run a.py --dry-run"),
        ("gpulaunch run a.py -- -x --gpus 2", "--gpus", "gpulaunch run a.py --gpus 2 -- -x"),
        ("gpulaunch run a.py -- --gpus=2 -x", "--gpus", "gpulaunch run a.py --gpus=2 -- -x"),
        ("gpulaunch run -c paper", "--gpus", ""),  # it is in the run config
    ],
)
def test_an_option_of_gpulaunch_moves_to_the_front(typed: str, option: str, line: str) -> None:
    words = TypedCommand(tuple(typed.split()))
    assert words.move_to_front(option, takes_value=option in OWN_OPTIONS) == bool(line)
    assert not line or words.with_command("did you mean it?") == f"did you mean it? {line}"


def test_an_argument_is_added_behind_the_dashes() -> None:
    words = TypedCommand(("gpulaunch", "run", "a.py"))
    assert words.add("--data", "VALUE")
    assert words.add("--out", "VALUE")
    assert words.with_command("add") == "add: gpulaunch run a.py -- --data VALUE --out VALUE"
    assert not TypedCommand(()).add("--data")
