"""Arguments that a script's own parser would refuse. Pure.

Python's argparse itself gives the verdict, over the arguments that reading has found: the semantics of
abbreviations, negative numbers and counts are its own. Where Python's versions differ, nothing is said.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NoReturn, TypeAlias

from preflight import regex as re
from preflight.facts.script import ParserArgument, ScriptParser
from preflight.frozen import dataclass

Kind: TypeAlias = Literal["unknown", "missing", "value"]

_OVERRIDE = re.compile(r"~|[^=]*=")  # Hydra's: lr=1, +lr=1, ~lr
_TYPES = {"int": int, "float": float}
_SEVERAL = ("?", "*", "+")
_MOST_OPEN = 3  # argparse tries all ways to share words among such arguments, in exponential time
_BY_VERSION = re.compile(r"-(?=\.?\d)(?!\d+$|\d*\.\d+$)")
"""Negative numbers such as -1e-4, which Python before 3.14 takes for options."""
_UNEXPANDED = re.compile(r"[$`]")  # a word that is another one by the time the script gets it
_REQUIRED = "the following arguments are required: "


@dataclass(frozen=True, slots=True)
class RefusedArgument:
    """One thing that ends the script: an unknown word, a required argument, or a value that is refused."""

    kind: Kind
    word: str  # as it was given; of what is missing its name
    says: str  # what argparse prints
    argument: ParserArgument | None = None  # that is missing, or refuses the value


class _Refused(Exception):
    """argparse would print this and end."""


class _Ended(Exception):
    """The script prints its help or its version, and ends."""


_FORMATTER = argparse.HelpFormatter("", width=80)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:  # noqa: ARG002 - as its base has it
        raise _Ended

    def _get_formatter(self) -> argparse.HelpFormatter:
        """Return one for all arguments: a new one asks for the size of the terminal, each time."""
        return _FORMATTER

    def print_help(self, file: object = None) -> None:  # noqa: ARG002 - as its base has it
        raise _Ended


def find_refused_args(parser: ScriptParser, args: Sequence[str]) -> tuple[RefusedArgument, ...]:
    """Return what of a command line ends the script, () where nothing is proven to."""
    if any(_UNEXPANDED.search(word) or _BY_VERSION.match(word) for word in args):
        return ()
    if parser.by == "fire.Fire":
        return tuple(_find_unknown_of_fire(parser, args))
    if parser.by == "tyro.cli":
        args = [_spell_with_dashes(parser, word) for word in args]
    if _count_open(parser) > _MOST_OPEN:
        return ()
    try:
        return _Verdict(parser, args).list_refused()
    except (_Ended, AttributeError, TypeError, ValueError, RecursionError, argparse.ArgumentError):
        return ()  # help; or a parser that argparse itself would not build


def _find_unknown_of_fire(parser: ScriptParser, args: Sequence[str]) -> Iterator[RefusedArgument]:
    """Yield the options that fire leaves over: it calls the function without them, and ends with an error."""
    names = {item.names[0][2:] for item in parser.arguments}
    own = {"-", "--", "-h", "--help"}
    for word in args if own.isdisjoint(args) else ():
        name = word.partition("=")[0][2:].replace("-", "_")
        if word.startswith("--") and len(name) > 1 and not {name, name.removeprefix("no")} & names:
            yield RefusedArgument("unknown", word, f"Could not consume arg: {word}")


def _spell_with_dashes(parser: ScriptParser, word: str) -> str:
    """Return a word as tyro knows it, for which --batch_size is --batch-size."""
    name, equals, value = word.partition("=")
    spelled = name.replace("_", "-")
    known = {option.replace("--no-", "--") for item in parser.arguments for option in item.names}
    return f"{spelled}{equals}{value}" if spelled.replace("--no-", "--") in known else word


class _Verdict:
    """One command line in front of one parser."""

    def __init__(self, parser: ScriptParser, args: Sequence[str]) -> None:
        self._parser, self._args = parser, list(args)
        self._names = {_name_in_errors(item): item for item in parser.arguments}
        self._counts_vary = _count_open(parser) > 0

    def list_refused(self) -> tuple[RefusedArgument, ...]:
        """Return all that argparse says of the words, and what it would say once that is repaired.

        Raises what argparse does of a parser that it does not build, and _Ended.
        """
        strict = _build(self._parser)
        try:
            given, extras = strict.parse_known_args(self._args)
        except argparse.ArgumentError as error:
            return self._of_error(error.argument_name or "", str(error), error.message)
        except _Refused as error:
            return self._of_error("", str(error), str(error))
        words = given.overrides if self._parser.by == "hydra.main" and not extras else ()
        wrong = next((word for word in words if not _OVERRIDE.match(word)), None)
        if wrong is not None:
            return self._of_error("overrides", f"{wrong!r} is not of the form NAME=VALUE", "")
        return self._unknown(extras)

    def _of_error(self, name: str, says: str, message: str) -> tuple[RefusedArgument, ...]:
        if message.startswith(_REQUIRED):
            lacking = message.removeprefix(_REQUIRED).split(", ")
            missing = [RefusedArgument("missing", item, says, self._names.get(item)) for item in lacking]
            return (*self._unknown(self._extras_if_optional()), *missing)
        argument = self._names.get(name)
        if argument is None and name:
            return ()
        return (RefusedArgument("value", name, says, argument),)

    def _extras_if_optional(self) -> list[str]:
        """Return the words that no option takes, where nothing were required."""
        try:
            return _build(self._parser, nothing_required=True).parse_known_args(self._args)[1]
        except (_Refused, argparse.ArgumentError):
            return []

    def _unknown(self, extras: Sequence[str]) -> tuple[RefusedArgument, ...]:
        """Return the options among the words that are left, else the first word, where it is surely left."""
        options = [word for word in extras if word.startswith("-") and word not in ("-", "--")]
        words = options or ([] if self._counts_vary else [word for word in extras if word != "--"][:1])
        says = f"unrecognized arguments: {' '.join(extras)}"
        return tuple(RefusedArgument("unknown", word, says) for word in words)


def _count_open(parser: ScriptParser) -> int:
    """Return how many positional arguments take one or several words."""
    return sum(item.nargs in _SEVERAL and not item.names[0].startswith("-") for item in parser.arguments)


def _name_in_errors(item: ParserArgument) -> str:
    negative = [f"--no-{name[2:]}" for name in item.names if name.startswith("--")]
    return "/".join((*item.names, *(negative if item.action == "boolean" else ())))


def _build(parser: ScriptParser, *, nothing_required: bool = False) -> _Parser:
    built = _Parser(prog="", add_help=parser.add_help, allow_abbrev=parser.allow_abbrev, exit_on_error=False)
    required = () if nothing_required else parser.required_groups
    groups = [
        built.add_mutually_exclusive_group(required=number in required)
        for number in range(1, parser.groups + 1)
    ]
    for item in parser.arguments:
        owner = groups[item.group - 1] if item.group else built
        owner.add_argument(*item.names, **_keywords(item, nothing_required=nothing_required))
    return built


def _keywords(item: ParserArgument, *, nothing_required: bool) -> dict[str, Any]:
    if item.action in ("help", "version"):
        return {"action": item.action} | ({"version": ""} if item.action == "version" else {})
    found: dict[str, Any] = {"action": item.action, "default": item.default}
    if item.action == "boolean":
        found["action"] = argparse.BooleanOptionalAction
    if item.names[0].startswith("-"):
        found["required"] = item.required and not nothing_required
    if item.action in ("store_const", "append_const"):
        found["const"] = True
    if item.action not in ("store", "append", "extend"):
        return found
    found["type"] = _TYPES.get(item.kind, str)
    if item.nargs is not None:
        found["nargs"] = item.nargs
    elif nothing_required and not item.names[0].startswith("-"):
        found["nargs"] = "?"
    if item.choices is not None:
        found["choices"] = item.choices
    return found
