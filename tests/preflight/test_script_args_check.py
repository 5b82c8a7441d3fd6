"""The command line that a finding about the script's arguments offers."""

from pathlib import Path

import pytest

from launcher.cli import run_command_line
from launcher.commands.run import command
from preflight.checks.script_args import (
    OWN_OPTIONS,
    OWN_SWITCHES,
    TypedCommand,
    the_script_takes_its_arguments,
)
from preflight.job import CommandRequest, Job
from preflight.script.analyze import analyze_script


def test_gpulaunch_knows_its_own_options() -> None:
    options = {word: param for param in command.params for word in param.opts if word.startswith("-")}
    switches = {word for word, param in options.items() if getattr(param, "is_flag", False)}
    assert switches == OWN_SWITCHES
    beside_no_script = {"-c", "--config"}  # in front of -- they are refused beside a script
    assert set(options) - switches - beside_no_script == OWN_OPTIONS


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


_SCRIPT = """import argparse
parser = argparse.ArgumentParser()
parser.add_argument({names}, type=int{more})
args = parser.parse_args()
"""


@pytest.mark.parametrize(
    ("names", "more", "option", "message", "fix"),
    [
        ('"--local_rank"', "", "--local_rank", "", ""),
        ('"--local_rank"', ", required=True", "--local_rank", "", ""),
        (
            '"--local_rank"',
            ", required=True",
            "",
            "train.py requires --local_rank",
            'int(os.environ["LOCAL_RANK"])',
        ),
        (
            '"--local_rank"',
            "",
            "--local-rank",
            "--local-rank is not an option",
            'add_argument("--local_rank", "--',
        ),
        ('"--local_rank", "--local-rank"', "", "--local-rank", "", ""),
        ('"--epochs"', "", "--local-rank", "", ""),  # the launch leaves it out
    ],
)
def test_the_local_rank_that_a_launcher_passes_is_an_argument(
    names: str, more: str, option: str, message: str, fix: str
) -> None:
    script = analyze_script(_SCRIPT.format(names=names, more=more), "train.py")
    job = Job(typed=("gpulaunch", "run"), command=CommandRequest(local_rank_option=option))
    found = list(the_script_takes_its_arguments(job, script))
    assert [(message in each.message, fix in each.fix) for each in found] == [(True, True)] * bool(message)


def test_a_finding_shows_no_secret() -> None:
    script = analyze_script(_SCRIPT.format(names='"--n"', more=""), "train.py")
    words = ("--hf_tokn=hf_abcdefghijklmnopqrstuvwxyz0123456789", "--api-key", "s3cr3tvalue")
    job = Job(args=words, typed=("gpulaunch", "run", "train.py", "--", *words))
    found = list(the_script_takes_its_arguments(job, script))
    assert len(found) == 2
    assert not any(secret in f"{each}" for each in found for secret in ("hf_abc", "s3cr3t"))


def test_a_job_is_not_submitted_that_would_end_at_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(_SCRIPT.format(names='"--steps"', more=""), encoding="utf-8")
    Path("job.yaml").write_text("script: train.py\nslurm: {nodes: 2}\n", encoding="utf-8")
    assert run_command_line(["submit", "-c", "./job.yaml", "--dry-run", "--", "--step", "2"]) == 0
    assert run_command_line(["submit", "-c", "./job.yaml", "--dry-run", "--", "--stepps", "2"]) == 2
    assert "fix: did you mean --steps? gpulaunch submit -c ./job.yaml -- --steps 2" in capsys.readouterr().err
