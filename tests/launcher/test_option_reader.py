"""Options in front of a program, read as the launcher's own parser reads them, whatever their spelling."""

import argparse
import contextlib
import functools
import io

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from launcher.engines.command_line.option_reader import read_options
from launcher.engines.command_line.options import Table
from launcher.engines.command_line.parse import parse_line
from launcher.engines.command_line.shell.words import make_words
from launcher.engines.command_line.tables.accelerate import ACCELERATE
from launcher.engines.command_line.tables.torchrun import TORCHRUN
from launcher.errors import CommandRefused
from tests.launcher.test_command_tables import accelerate_parser, of_release, options_of, torchrun_parser

_torchrun = functools.cache(torchrun_parser)
_accelerate = functools.cache(accelerate_parser)
_VALUES = st.sampled_from(("2", "x", "-1", "-0.5", "a b", "-", "--x", "", "gpu", "a=b", "-m", "--tee=1 2"))
_PROGRAMS = st.sampled_from(("train.py", "pkg.mod", "-", "a b", "-1"))
_REST = st.lists(st.sampled_from(("--lr", "1", "--nproc_per_node", "-m", "--", "--a=b")), max_size=3)


@st.composite
def _lines(draw: st.DrawFn, actions: list[argparse.Action]) -> list[str]:
    """Return options in any of their spellings, cut short ones included, a program and its arguments."""
    words: list[str] = []
    for action in draw(st.lists(st.sampled_from(actions), max_size=4)):
        name = draw(st.sampled_from(action.option_strings))
        if name.startswith("--") and draw(st.integers(0, 5)) == 0:
            name = name[: draw(st.integers(3, len(name)))]
        value = draw(_VALUES)
        if action.choices is not None:
            value = str(draw(st.sampled_from(list(action.choices))))
        if action.nargs == 0:
            words.append(name)
        elif draw(st.booleans()):
            words += [name, value]
        else:
            words.append(f"{name}={value}" if name.startswith("--") else f"{name}{value}")
    words += draw(st.sampled_from(((), ("--",)))) if draw(st.integers(0, 9)) == 0 else ()
    return [*words, draw(_PROGRAMS), *draw(_REST)]


def check_against(parser: argparse.ArgumentParser, table: Table, words: list[str]) -> None:
    """Compare what a launcher's parser and gpulaunch make of the same words."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            theirs = parser.parse_args(list(words))
    except SystemExit:
        assume(False)
    try:
        read = read_options(make_words(words), 0, of_release(table, parser))
    except CommandRefused as refused:
        assert f" of {table.owner}: " in refused.message  # noqa: PT017 - an option that gpulaunch cannot honour
        return
    assert words[read.program] == theirs.training_script
    assert words[read.arguments :] == theirs.training_script_args
    by_name = {name: action for action in options_of(parser) for name in action.option_strings}
    for use in {one.option: one.use for one in read.found}.values():
        action, meant = by_name[use.name], getattr(theirs, by_name[use.name].dest)
        if action.nargs != 0:
            assert (action.type(use.value) if callable(action.type) else use.value) == meant


@pytest.mark.slow
@settings(max_examples=300)
@given(data=st.data())
def test_torchrun_reads_any_line_as_gpulaunch_does(data: st.DataObject) -> None:
    parser = _torchrun()
    check_against(parser, TORCHRUN, data.draw(_lines(list(options_of(parser)))))


@settings(max_examples=50)
@given(data=st.data())
def test_accelerate_reads_any_line_as_gpulaunch_does(data: st.DataObject) -> None:
    parser = _accelerate()
    check_against(parser, ACCELERATE, data.draw(_lines(list(options_of(parser)))))


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("torchrun --nproc_per_node 2 --nproc-per-node=4 a.py", (None, 4, None)),
        ("torchrun --nnodes 2 --nproc_per_node 2 --nnodes 1 a.py", (1, 2, None)),
        ("accelerate launch --num_processes 2 --num-processes 8 a.py", (None, None, 8)),
        ("deepspeed --num_gpus 2 --num_gpus 1 a.py", (None, 1, None)),
    ],
)
def test_the_last_of_an_option_that_comes_again_counts(
    line: str, counts: tuple[int | None, int | None, int | None]
) -> None:
    parsed = parse_line(line)
    request = parsed.request
    assert (request.nodes, request.per_node, request.total) == counts
    assert any("comes after it, and counts" in sentence for sentence in parsed.dropped)
    with pytest.raises(CommandRefused, match="two things"):
        parse_line("mpirun -np 2 -np 4 python a.py")


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate launch", "deepspeed", "composer"])
def test_two_dashes_behind_the_script_are_the_parsers_own(launcher: str) -> None:
    """argparse takes the first `--` off; a script that got it would take its options for arguments."""
    assert parse_line(f"{launcher} a.py -- --lr 1").args == ("--lr", "1")
    assert parse_line(f"{launcher} -- a.py -- --lr 1").args == ("--", "--lr", "1")
    assert parse_line(f"{launcher} a.py 1 -- --lr 1").args == ("1", "--", "--lr", "1")
    assert parse_line("python a.py -- --lr 1").args == ("--", "--lr", "1")
