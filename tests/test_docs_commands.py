"""Every command line that the pages, the examples and the help show is one that gpulaunch takes."""

import re
from collections.abc import Iterator
from importlib import import_module

import click

from launcher.cli import COMMANDS, find_module
from tests.test_docs import PAGES, ROOT

HISTORY = {ROOT / "CHANGELOG.md"}  # names what earlier versions took
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for path in (
        *sorted({*PAGES} - HISTORY),
        ROOT / "hosts.example.yaml",
        *sorted(ROOT.glob("launcher/**/*.py")),
    )
}
ENDS = re.compile(r"`|\s#|[;|>&)\"]|\s--(?=\s|$)|, (?=gpulaunch)|\n")
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][\w-]*")


def shown_commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Return the name and the options of each `gpulaunch NAME ...` in a text."""
    names = "|".join(map(re.escape, COMMANDS))
    for match in re.finditer(rf"(?<![\w/.-])gpulaunch ({names})(?=[\s`])", text):
        words = ENDS.split(text[match.end() :], maxsplit=1)[0]
        yield match[1], OPTION.findall(words)


def options_of(name: str) -> set[str]:
    """Return the options of a command, its own and those of every command."""
    command = import_module(find_module(name)).command
    assert isinstance(command, click.Command)
    context = click.Context(command)
    return {word for parameter in command.get_params(context) for word in parameter.opts} | {"-h", "--help"}


def test_options_of_shown_commands_exist() -> None:
    shown = [(path, *one) for path, text in TEXTS.items() for one in shown_commands(text)]
    assert len(shown) > 500
    known = {name: options_of(name) for name in COMMANDS}
    wrong = [
        f"{path.relative_to(ROOT)}: gpulaunch {name} {option}"
        for path, name, options in shown
        for option in options
        if option not in known[name]
    ]
    assert wrong == []


def test_a_wrong_option_is_seen() -> None:
    text = "`gpulaunch run a.py --nodse 2 -- --lr 1`, then gpulaunch preflight a  # --none\ngpulaunch ps -x"
    assert list(shown_commands(text)) == [("run", ["--nodse"]), ("preflight", []), ("ps", ["-x"])]
    known = options_of("run")
    assert "--nodse" not in known
    assert "--nodes" in known
