"""Aliases of a shell, as functions: what one is, and what takes it back. Pure."""

from collections.abc import Mapping, Sequence

from launcher.engines.command_line.shell.words import Word
from preflight import regex as re

_WORDS = ' "$@"'  # of the command, behind the text of an alias


def read_aliases(words: Sequence[Word]) -> dict[str, str]:
    """Return what `alias NAME=COMMAND` defines, as bodies of functions; {} for any other command."""
    pairs = (word.text.partition("=") for word in words if word.is_known and "=" in word.text)
    if words[0].text != "alias":
        return {}
    return {  # its own name in it is the program: `alias python="A=1 python -u"`
        name: re.sub(rf"\A((?:\w+=\S*\s+)*)(?={re.escape(name)}(?:\s|$))", r"\1command ", text) + _WORDS
        for name, _, text in pairs
    }


def read_removed(functions: Mapping[str, str], words: Sequence[Word]) -> dict[str, str]:
    """Return what `unalias -a`, `unalias NAME` and `unset -f NAME` make of functions: the program instead."""
    left_out = {word.text for word in words}
    is_all = "-a" in left_out
    if words[0].text != "unalias" and [word.text for word in words[:2]] != ["unset", "-f"]:
        return {}
    return {
        name: f'command {name} "$@"'
        for name, text in functions.items()
        if name in left_out or (is_all and text.endswith(_WORDS))
    }


def join_aliases(functions: Mapping[str, str], words: tuple[Word, ...]) -> tuple[str, tuple[Word, ...]]:
    """Return the text of a function and its call; behind an alias that ends in a blank is another one."""
    text, rest = functions[words[0].text], words[1:]
    while rest and text.endswith(f" {_WORDS}") and functions.get(rest[0].text, "").endswith(_WORDS):
        text, rest = text.removesuffix(_WORDS) + functions[rest[0].text], rest[1:]
    return text, (words[0], *rest)
