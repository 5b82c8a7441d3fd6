"""Durations mean the same on every command line and in every file."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from launcher.cli import cli
from launcher.commands._param_types import DurationParam, PrecisionParam
from launcher.config.inventory_reader import load_inventory
from launcher.config.run_config import load_run_config
from launcher.durations import format_duration, parse_duration
from launcher.errors import ConfigError

TEXTS = {"90": 90, "90s": 90, "1.5": 1.5, "10m": 600, "10min": 600, "2h": 7200, "30d": 2592000, "0": 0}


@pytest.mark.parametrize(("text", "seconds"), TEXTS.items())
def test_a_duration_is_the_same_on_a_command_line_and_in_files(
    text: str, seconds: float, tmp_path: Path
) -> None:
    assert parse_duration(text) == seconds
    assert DurationParam().convert(text, None, None) == seconds
    config = tmp_path / "train.yaml"
    config.write_text(f"script: a.py\nhang_timeout: {text}\nrestart: {{backoff_s: {text}}}\n")
    job = load_run_config(str(config))
    assert job.job.hang_timeout == seconds
    assert job.restart is not None
    assert job.restart.backoff_s == seconds
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text(f"hosts: {{titan: {{expect: {{clock_skew_s: {text}}}}}}}\n")
    assert load_inventory(hosts).hosts["titan"].expect.clock_skew_s == seconds


@pytest.mark.parametrize("text", ["", "s", "-3", "nan", "inf", "1e9", "3 weeks", "1h30m", "9" * 30, "٣"])
def test_what_is_not_a_duration_is_refused_with_what_is_expected(text: str, tmp_path: Path) -> None:
    assert parse_duration(text) is None
    with pytest.raises(click.BadParameter, match="such as 90, 30s, 10m, 2h or 30d"):
        DurationParam().convert(text, None, None)
    config = tmp_path / "train.yaml"
    config.write_text(f"script: a.py\nhang_timeout: '{text}'\n")
    with pytest.raises(ConfigError, match="such as 90, 30s, 10m, 2h or 30d"):
        load_run_config(str(config))


@given(st.integers(0, 10**9))
def test_a_duration_that_is_shown_can_be_typed(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(("typed", "meant"), [("fp32", "no"), ("bfloat16", "bf16"), ("fp16", "fp16")])
def test_a_precision_is_understood_in_torchs_words_too(typed: str, meant: str, tmp_path: Path) -> None:
    @click.command()
    @click.option("--precision", type=PrecisionParam())
    def show(precision: str) -> None:
        click.echo(precision)

    assert CliRunner().invoke(show, ["--precision", typed]).output == f"{meant}\n"
    config = tmp_path / "train.yaml"
    config.write_text(f"script: a.py\nprecision: {typed}\n")
    assert load_run_config(str(config)).job.precision == meant


def test_a_duration_that_is_too_long_is_told_in_the_words_it_was_typed_in() -> None:
    result = CliRunner().invoke(cli, ["clean-zombies", "--grace", "2d"])
    assert (result.exit_code, "expected at most 1d, got 2d" in result.output) == (2, True)


@pytest.mark.parametrize("name", sorted(cli.list_commands(click.Context(cli))))
def test_help_calls_every_duration_one_and_tells_its_bounds_as_one(name: str) -> None:
    result = CliRunner().invoke(cli, [name, "--help"]).output
    assert result.startswith("Usage: ")
    assert ("SECONDS" in result, "None" in result, "<=x<=" in result.partition("--grace")[2][:200]) == (
        False,
    ) * 3
