"""What a script's own parser refuses: our verdict beside that of argparse itself, which runs the script."""

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.decide.refused_args import find_refused_args
from preflight.facts.script import ScriptParser
from preflight.script.parser_reader import read_parser
from preflight.script.syntax_trees import Parser
from tests.preflight.script_cases import HERE

_OPTIONS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", "-l", type=float, default=1e-4)
parser.add_argument("--steps", type=int)
parser.add_argument("--data_dir", required=True)
parser.add_argument("--data_size", type=int, choices=range(1, 5))
parser.add_argument("--opt", choices=["adam", "sgd"])
parser.add_argument("--layers", nargs="+", type=int)
parser.add_argument("--size", nargs=2)
parser.add_argument("--fp16", action="store_true")
group = parser.add_mutually_exclusive_group()
group.add_argument("--cpu", action="store_true")
group.add_argument("--cuda", action="store_true")
parser.add_argument("--verbose", "-v", action="count")
parser.add_argument("--ema", action=argparse.BooleanOptionalAction)
"""
_PARSE = "args = parser.parse_args()\n"


def _read(text: str) -> ScriptParser | None:
    return read_parser(Parser(), "train.py", text)


def _kinds(text: str, line: str) -> list[tuple[str, str]]:
    parser = _read(text)
    assert parser is not None
    return [(item.kind, item.word) for item in find_refused_args(parser, line.split())]


def _runs(text: str, words: list[str]) -> bool:
    """Whether the script goes on behind its parser."""
    argv, sys.argv = sys.argv, ["train.py", *words]
    try:
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        return end.code != 2
    finally:
        sys.argv = argv
    return True


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--data_dir d --lr 1e-4", []),
        ("--data_dir=d --lr=-1", []),
        ("--data_dir d -l1", []),
        ("--data_d d", []),  # an abbreviation
        ("--data_dir d --layers 1 2 3 --fp16", []),
        ("--data_dir d --no-ema -vv", []),
        ("--help", []),
        ("--data_dir d --lr -1e-4", []),  # for Python 3.14 a number, for others an option
        ("--data_dir d --steps $STEPS", []),
        ("--data_dir d --learning_rate 1", [("unknown", "--learning_rate")]),
        ("--data_dri d", [("unknown", "--data_dri"), ("missing", "--data_dir")]),
        ("--lr 1", [("missing", "--data_dir")]),
        ("--data_ d", [("value", "")]),  # ambiguous
        ("--data_dir d --steps 1e5", [("value", "--steps")]),
        ("--data_dir d --opt adamw", [("value", "--opt")]),
        ("--data_dir d --data_size 9", [("value", "--data_size")]),
        ("--data_dir d --size 1", [("value", "--size")]),
        ("--data_dir d --fp16=1", [("value", "--fp16")]),
        ("--data_dir d --cpu --cuda", [("value", "--cuda")]),
        ("--data_dir d --lr", [("value", "--lr/-l")]),
        ("--data_dir d --ema=1", [("value", "--ema/--no-ema")]),
        ("--data_dir d e", [("unknown", "e")]),
    ],
)
def test_argparse_has_the_verdict(line: str, expected: list[tuple[str, str]]) -> None:
    found = _kinds(_OPTIONS + _PARSE, line)
    assert [(kind, "" if line == "--data_ d" else word) for kind, word in found] == expected
    if "$" not in line and "-1e-4" not in line:
        assert _runs(_OPTIONS + _PARSE, line.split()) == (not expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--data_dir d in out", []),
        ("--data_dir d in", [("missing", "out")]),
        ("--data_dir d", [("missing", "source"), ("missing", "out")]),
        ("--data_dir d --steps", [("value", "--steps")]),
        ("in --step 1 --lrr 2", [("unknown", "--lrr"), ("missing", "--data_dir")]),
        ("--data_dri d --steps", [("value", "--steps")]),
    ],
)
def test_arguments_without_an_option_may_lack_too(line: str, expected: list[tuple[str, str]]) -> None:
    script = f"{_OPTIONS}parser.add_argument('source')\nparser.add_argument('out')\n{_PARSE}"
    assert _kinds(script, line) == expected
    assert _runs(script, line.split()) == (not expected)


@pytest.mark.parametrize(
    "choices",
    [
        "C = ['a']\nC.append('b')",
        "C = ['a']\nregister(C)",
        "C = ('a',)\nfrom models import C",
        "C = ('a',)\ndef other(C): pass",
    ],
)
def test_choices_that_may_change_refuse_nothing(choices: str) -> None:
    added = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--m', choices=C)\n"
    assert _kinds(f"{choices}\n{added}{_PARSE}", "--m b") == []
    known = f"C = ['a']\n{added}{_PARSE}assert args.m in C\n"
    assert _kinds(known, "--m b") == [("value", "--m")]


_NAMES = ["--alpha", "--alpha_b", "--beta", "-c", "--gamma-d"]
_WORDS = [
    *_NAMES,
    "--alp",
    "--zeta",
    "--beta=1",
    "-c2",
    "1",
    "x",
    "2.5",
    "-1",
    "--",
    "--gamma-d=x",
    "-h",
    "--alpha=a b",
]


@st.composite
def _scripts(draw: st.DrawFn) -> str:
    """Return a script whose parser has some of the options, and a positional argument at times."""
    lines = ["import argparse", f"parser = argparse.ArgumentParser(allow_abbrev={draw(st.booleans())})"]
    owners = ["parser"]
    if draw(st.booleans()):
        lines.append(f"group = parser.add_mutually_exclusive_group(required={draw(st.booleans())})")
        lines.append("group.add_argument('--of-group')")  # argparse cannot print an empty one
        owners.append("group")
    names = draw(st.lists(st.sampled_from(_NAMES), unique=True, max_size=5))
    rows = [(draw(st.sampled_from(owners)), name) for name in names]
    lines += [
        f"{own}.add_argument({name!r}, {draw(_keywords(required=own == 'parser'))})" for own, name in rows
    ]
    for name in draw(st.sampled_from([[], ["files"], ["one", "two"]])):
        lines.append(
            f"parser.add_argument({name!r}, nargs={draw(st.sampled_from([None, '?', '+', '*', 2]))!r})"
        )
    return "\n".join([*lines, _PARSE])


@st.composite
def _keywords(draw: st.DrawFn, *, required: bool) -> str:
    action = draw(st.sampled_from(["store", "store_true", "count", "append", "boolean"]))
    given: dict[str, Any] = {"required": draw(st.booleans())} if required else {}
    words = [f"{name}={value!r}" for name, value in given.items()]
    if action == "boolean":
        return ", ".join([*words, "action=argparse.BooleanOptionalAction"])
    words.append(f"action={action!r}")
    if action in ("store", "append"):
        words.append(f"type={draw(st.sampled_from(['int', 'float', 'str']))}")
        words.append(f"nargs={draw(st.sampled_from([None, '?', '+', '*', 1, 2]))!r}")
        words.append(draw(st.sampled_from(["choices=None", "choices=[1, 2, 'x']", "default=None"])))
    return ", ".join(words)


@given(_scripts(), st.lists(st.sampled_from(_WORDS), max_size=6))
def test_no_argument_is_refused_that_argparse_takes(script: str, words: list[str]) -> None:
    parser = _read(script)
    if parser is not None and find_refused_args(parser, words):
        assert not _runs(script, words)


@given(_scripts(), st.lists(st.sampled_from([word for word in _WORDS if word != "--"]), max_size=6))
def test_what_argparse_refuses_is_found(script: str, words: list[str]) -> None:
    """But for what Python's versions judge differently."""
    parser = _read(script)
    counts_vary = "nargs='?'" in script or "nargs='*'" in script or "nargs='+'" in script
    if parser is not None and not counts_vary and not _runs(script, words):
        assert find_refused_args(parser, words)


def _scripts_that_are(known: str) -> dict[str, str]:
    """Return {heading: script} of scripts/parsers.txt."""
    parts = (HERE / "parsers.txt").read_text(encoding="utf-8").split("#### ")[1:]
    rows = (part.partition("\n") for part in parts)
    return {title.partition(": ")[2]: text for title, _, text in rows if title.startswith(f"{known}: ")}


@pytest.mark.parametrize("script", (rows := _scripts_that_are("known")).values(), ids=rows)
def test_a_parser_is_known_that_surely_gets_the_command_line(script: str) -> None:
    parser = _read(script)
    assert parser is not None
    assert parser.arguments[0].names == ("--lr",)


@pytest.mark.parametrize("script", (rows := _scripts_that_are("unknown")).values(), ids=rows)
def test_of_another_parser_nothing_is_known(script: str) -> None:
    assert _read(script) is None
