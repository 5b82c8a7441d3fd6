"""What reading makes of a script's options is what argparse makes of them."""

import argparse

import pytest

from preflight.script.analyze import analyze_script

SCRIPT = """import argparse
from accelerate import Accelerator
p = argparse.ArgumentParser()
{}
a = p.parse_args()
Accelerator(mixed_precision=f"{{a.x}}")
"""

OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "a text": ("p.add_argument('--x', default='no')", ("", "--x bf16", "--x=fp16", "--x a --x b", "--x=a=b")),
    "no default": ("p.add_argument('--x')", ("", "--x bf16", "--x=fp16", "--x=")),
    "two flags": ("p.add_argument('-s', '--x', default='no')", ("", "-s bf16", "--x fp16")),
    "one letter": ("p.add_argument('-x', default='no')", ("", "-x bf16")),
    "a dash": ("p.add_argument('--the-x', dest='x', default='no')", ("", "--the-x bf16", "--the-x=fp16")),
    "first of two": (
        "p.add_argument('--x', '--other', default='no')",
        ("", "--x a", "--other b", "--other=c"),
    ),
    "a number": ("p.add_argument('--x', type=int, default=1)", ("", "--x 2", "--x=-3")),
    "a number in a text": ("p.add_argument('--x', type=int, default='7')", ("", "--x 2")),
    "a fraction": ("p.add_argument('--x', type=float, default=1)", ("", "--x 2", "--x=1e-3")),
    "a fraction in a text": ("p.add_argument('--x', type=float, default='0.5')", ("",)),
    "a str": ("p.add_argument('--x', type=str, default='True')", ("", "--x false")),
    "a bool": ("p.add_argument('--x', type=bool, default=False)", ("", "--x False", "--x=")),
    "on": ("p.add_argument('--x', action='store_true')", ("", "--x")),
    "off": ("p.add_argument('--x', action='store_false')", ("", "--x")),
    "off by a name": ("p.add_argument('--no-x', dest='x', action='store_false')", ("", "--no-x")),
    "on with a default": ("p.add_argument('--x', action='store_true', default='no')", ("", "--x")),
    "both": (
        "p.add_argument('--x', default=True, action=argparse.BooleanOptionalAction)",
        ("", "--x", "--no-x", "--no-x --x", "--x --no-x"),
    ),
    "both without a default": (
        "p.add_argument('-q', '--x', action=argparse.BooleanOptionalAction)",
        ("-q", "--x", "--no-x"),
    ),
    "a constant": ("p.add_argument('--x', action='store_const', const='bf16', default='no')", ("", "--x")),
    "a constant without a default": ("p.add_argument('--x', action='store_const', const=3)", ("", "--x")),
    "nargs": ("p.add_argument('--x', nargs='?', default='no')", ("",)),
    "commands": (
        (
            "s = p.add_subparsers()\nq, r = s.add_parser('train'), s.add_parser('eval')\n"
            "q.add_argument('--x', default='no')\n"
            "r.add_argument('--x', default='fp16')\nr.add_argument('--y')"
        ),
        ("train", "eval", "train --x bf16", "eval --x bf16", "eval --y train"),
    ),
    "one of": ("p.add_argument('--x', choices=['no', 'ddp'], default='no')", ("", "--x ddp")),
    "a group": ("p.add_argument_group('g').add_argument('--x', default='no')", ("", "--x bf16")),
    "one of a group": (
        "g = p.add_mutually_exclusive_group(); g.add_argument('--y'); g.add_argument('--x', default='no')",
        ("", "--x bf16", "--y 1"),
    ),
    "a parent": (
        (
            "q = argparse.ArgumentParser(add_help=False)\nq.add_argument('--x', default='no')\n"
            "p = argparse.ArgumentParser(parents=[q])\np.add_argument('--y', default='1')"
        ),
        ("", "--x bf16", "--y 2"),
    ),
    "two parents": (
        (
            "q, r = argparse.ArgumentParser(add_help=False), argparse.ArgumentParser(add_help=False)\n"
            "q.add_argument('--x', default='no')\nr.add_argument('--y', default='1')\n"
            "p = argparse.ArgumentParser(parents=[q, r])"
        ),
        ("", "--x bf16", "--y 2"),
    ),
    "defaults of a parent": (
        (
            "q = argparse.ArgumentParser(add_help=False)\nq.add_argument('--x', default='no')\n"
            "q.set_defaults(x='fp16', y='1')\np = argparse.ArgumentParser(parents=[q])"
        ),
        ("", "--x bf16"),
    ),
    "defaults": ("p.add_argument('--x', default='no')\np.set_defaults(x='fp16')", ("", "--x bf16")),
    "only a default": ("p.add_argument('--y', default='no')\np.set_defaults(x='fp16')", ("", "--y bf16")),
    "a word before": ("p.add_argument('y')\np.add_argument('--x', default='no')", ("w", "w --x bf16")),
    "another's value": ("p.add_argument('--y')\np.add_argument('--x', default='no')", ("--y x", "--y=--x")),
}
CASES = [(kind, line) for kind, (_, lines) in OPTIONS.items() for line in lines]


def read(text: str, line: str) -> str:
    (site,) = analyze_script(text, "train.py", args=tuple(line.split())).precision
    return site.value


@pytest.mark.parametrize(("kind", "line"), CASES)
def test_an_option_is_what_argparse_makes_of_the_launchs_arguments(kind: str, line: str) -> None:
    names: dict[str, object] = {"argparse": argparse, "p": argparse.ArgumentParser()}
    exec(OPTIONS[kind][0], names)
    parser = names["p"]
    assert isinstance(parser, argparse.ArgumentParser)
    assert read(SCRIPT.format(OPTIONS[kind][0]), line) == str(parser.parse_args(line.split()).x)


PARSERS = """import argparse
import sys
p, q = argparse.ArgumentParser(), argparse.ArgumentParser(add_help=False)
p.add_argument("--x", default="no")
q.add_argument("-y", "--y_y", default="1")
q.add_argument("--on", action="store_true")
def parse(argv=None):
    return p.parse_known_args(argv)[0]
a = {}
"""
WAYS = (
    *(
        "parse()",
        "parse(None)",
        "parse(sys.argv[1:])",
        "parse(argv=sys.argv[1:])",
        "parse([])",
        "parse(['--x', 'own'])",
    ),
    *("p.parse_args(q.parse_known_args()[1])", "p.parse_args(q.parse_known_args(sys.argv[1:])[1])"),
    "p.parse_args('--x own'.split())",
)
LINES = ("", "--x bf16", "--x=bf16 --on", "--y_y 2 --x fp16", "-y=2 --on --x bf16", "--on --x fp16 --y_y=3")


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("way", WAYS)
def test_a_parser_reads_what_it_is_given(way: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", *line.split()])
    text = PARSERS.format(way)
    names: dict[str, object] = {}
    exec(text, names)
    use = 'from accelerate import Accelerator\nAccelerator(mixed_precision=f"{a.x}")\n'
    assert read(text + use, line) == str(getattr(names["a"], "x", None))
