"""The tables of options against the parsers of the launchers that are installed."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from launcher.engines.command_line.options import OPTIONAL, LauncherOption, Table
from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.tables.accelerate import ACCELERATE
from launcher.engines.command_line.tables.colossalai import COLOSSALAI
from launcher.engines.command_line.tables.composer import COMPOSER
from launcher.engines.command_line.tables.deepspeed import DEEPSPEED
from launcher.engines.command_line.tables.fabric import FABRIC
from launcher.engines.command_line.tables.mpirun_srun import MPIRUN, SRUN
from launcher.engines.command_line.tables.torchrun import LAUNCH, TORCHRUN
from tests.deepspeed_package import DIRECTORY, needs_deepspeed
from tests.pages.launcher_options import LAUNCHERS, launcher_pages, variables_reference

TABLES = (TORCHRUN, LAUNCH, ACCELERATE, DEEPSPEED, COMPOSER, COLOSSALAI, FABRIC, MPIRUN, SRUN)
HELP = {"-h", "--help"}
NEWER = ("--log_line_prefix_template", "--print_completion")  # than torch 2.13


def torchrun_parser() -> argparse.ArgumentParser:
    run = pytest.importorskip("torch.distributed.run")
    parser: argparse.ArgumentParser = run.get_args_parser()
    return parser


def accelerate_parser() -> argparse.ArgumentParser:
    launch = pytest.importorskip("accelerate.commands.launch")
    parser: argparse.ArgumentParser = launch.launch_command_parser()
    return parser


def launch_parser(monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    """Return the parser that torch.distributed.launch makes inside of its parse_args."""
    launch = pytest.importorskip("torch.distributed.launch")
    return made_by(lambda: launch.parse_args(["train.py"]), monkeypatch)


def made_by(parse: object, monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    parsers: list[argparse.ArgumentParser] = []
    real = argparse.ArgumentParser.parse_args

    def noted(self: argparse.ArgumentParser, *args: object, **named: object) -> argparse.Namespace:
        parsers.append(self)
        return real(self, *args, **named)  # type: ignore[return-value]

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", noted)
    assert callable(parse)
    parse()
    return parsers[-1]


def options_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        if action.option_strings and not HELP & set(action.option_strings):
            yield action


def of_release(table: Table, parser: argparse.ArgumentParser) -> Table:
    """Return a table without the options for which an installed launcher is too old."""
    theirs = {name for action in options_of(parser) for name in action.option_strings}
    options = tuple(option for option in table.options if option.name in theirs or option.name not in NEWER)
    return replace(table, options=options)


def differences(table: Table, parser: argparse.ArgumentParser) -> list[str]:
    """Return the options in which a table and its launcher's parser differ.

    A new, renamed or retyped option of the launcher shows here instead of in a user's launch.
    """
    known = of_release(table, parser).spellings()
    theirs = {name: action for action in options_of(parser) for name in action.option_strings}
    found = [f"{name}: one of the two lacks it" for name in set(theirs) ^ set(known)]
    for name in theirs.keys() & known.keys():
        action, option = theirs[name], known[name]
        kind = {int: "int", float: "float"}.get(action.type, option.kind)  # type: ignore[call-overload]
        same = (
            option.values == (0 if action.nargs == 0 else 1)
            and set(option.choices) == {str(choice) for choice in action.choices or ()}
            and option.kind == kind
            and len({known.get(other) for other in action.option_strings}) == 1
        )
        found += [] if same else [f"{name}: values, choices or kind"]
    return found if parser.allow_abbrev == table.abbreviations else [*found, "abbreviations"]


@pytest.mark.slow
def test_torchrun_has_the_options_of_its_table() -> None:
    assert differences(TORCHRUN, torchrun_parser()) == []


@pytest.mark.slow
def test_torch_distributed_launch_has_the_options_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    assert differences(LAUNCH, launch_parser(monkeypatch)) == []


def test_accelerate_launch_has_the_options_of_its_table() -> None:
    assert differences(ACCELERATE, accelerate_parser()) == []


@needs_deepspeed
@pytest.mark.slow
def test_deepspeed_has_the_options_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(DIRECTORY)
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    runner = import_module("deepspeed.launcher.runner")
    assert differences(DEEPSPEED, made_by(lambda: runner.parse_args(["train.py"]), monkeypatch)) == []


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.owner)
def test_every_row_says_what_becomes_of_its_option(table: Table) -> None:
    for option in table.options:
        if option.fate != "kept":
            assert option.why, option.name
        assert bool(option.fix) == (option.fate == "refused"), option.name
        assert option.values in (0, 1, 2, OPTIONAL), option.name
        assert not option.why.endswith("."), option.name


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.owner)
def test_no_spelling_is_of_two_options(table: Table) -> None:
    names = [name for option in table.options for name in (option.name, *option.also)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"--?[A-Za-z][\w-]*", name) for name in names)


def test_options_that_set_a_field_set_one_that_exists() -> None:
    from launcher.engines.command_line.parsed_command import Request  # noqa: PLC0415

    fields = set(Request.__slots__)
    rows: list[LauncherOption] = [option for table in TABLES for option in table.options]
    assert {option.sets for option in rows if option.sets} <= fields


def test_the_pages_of_launchers_are_current() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    pages = launcher_pages()
    anew = "write them anew: python -m tests.pages"
    assert {path.name: path.read_text("utf-8") for path in (docs / "coming-from").glob("*.md")} == pages, anew
    assert (docs / "launcher-options.md").read_text("utf-8").endswith(variables_reference()), anew
    assert [launcher.table for launcher in LAUNCHERS] == list(TABLES)
    for launcher in LAUNCHERS:  # the example is one of its launcher
        parsed = parse_line(launcher.today)
        assert launcher.table.owner in (parsed.launcher, parsed.prefix)
