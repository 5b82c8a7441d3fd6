"""The arguments of the script, in front of its own parser."""

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from preflight import regex as re
from preflight.checks.finding import Problem
from preflight.checks.message_text import shorten
from preflight.checks.registry import cluster_check
from preflight.decide.script_args import find_nearest_option, find_nearest_word, read_option_values
from preflight.facts.redaction import redact_text, redact_words
from preflight.facts.script import ParserArgument, ScriptAnalysis, ScriptParser
from preflight.job import Job

if TYPE_CHECKING:
    from preflight.decide.refused_args import RefusedArgument

OWN_SWITCHES = frozenset(
    {
        *("--sync", "--dry-run", "--show-secrets", "--clean", "--rehearse", "--deep", "--json"),
        *("--plain", "--verbose", "-v", "--all-ranks", "--detach", "-d", "--no-restart"),
        "--accept-new-host-keys",
    }
)
"""Options of `gpulaunch run` without a value."""
OWN_OPTIONS = frozenset(
    {
        *("--hosts", "--gpus", "--name", "--port", "--precision", "--guard", "--logs"),
        *("--hang-timeout", "--set", "--launch", "--ignore", "--wait", "--max-age", "--restarts", "--grace"),
        *("--on-disconnect", "--disconnect-timeout", "--transport", "--inventory", "-i", "--identity-file"),
        *("--parallel", "--nodes"),
    }
)
"""Options of `gpulaunch run` with a value."""
_OF_LAUNCHERS = {
    **dict.fromkeys(("num-processes", "nproc-per-node", "num-gpus"), "--gpus N, a number per host,"),
    **dict.fromkeys(("num-machines", "nnodes", "num-nodes"), "--hosts A,B"),
    **dict.fromkeys(("main-process-port", "master-port"), "--port N"),
    "mixed-precision": "--precision WHICH",
}
_OF_FIRE = "fire calls the function without it, and ends every rank with an error once that is done"
_MOST_WORDS, _MOST_LETTERS = 300, 60
_WHOLE = re.compile(r"\d{1,9}(?:\.\d{0,9})?(?:[eE]\+?\d)?")


@cluster_check("SCR005")
def the_script_takes_its_arguments(job: Job, script: ScriptAnalysis | None) -> Iterator[Problem]:
    """The script's own parser takes the arguments of this launch: argparse, tyro, fire, Hydra.

    argparse ends every rank with exit code 2 at an option that it does not know, a value that it cannot
    convert or that is not among the choices, and where a required argument is missing; tyro does so for a
    dataclass or function of the script, and Hydra at an option that is not its own. fire trains without an
    option that it does not know, and ends with an error then. gpulaunch reads the
    script and never executes it, and says nothing where reading does not prove all that the parser takes:
    click, typer, dataclasses of a library, `parse_known_args`, subcommands, arguments that a loop or another
    module adds, what Hydra's overrides name.

    Fix: the command of the message; an option of gpulaunch itself goes in front of `--`.
    Source: Python's own argparse, given the arguments that the script adds; tyro 1.0, fire 0.7, hydra 1.3.
    """
    if script is None or script.parser is None:
        return
    option = job.command.local_rank_option if not script.refuses_local_rank else ""
    local_rank = (f"{option}=0",) if option else ()
    yield from describe_refused_args(script.parser, posixpath.basename(script.path), job, local_rank)


def describe_refused_args(
    parser: ScriptParser, name: str, job: Job, before: tuple[str, ...] = ()
) -> Iterator[Problem]:
    """Yield what a script's parser refuses of the job's arguments, with `before` in front of them."""
    from preflight.decide.refused_args import find_refused_args  # noqa: PLC0415 - only a script with a parser pays

    refused = find_refused_args(parser, (*before, *job.args))
    if not job.typed:  # more may be given when it is launched
        refused = tuple(item for item in refused if item.kind != "missing")
    repair = _Repair(name, parser, job)
    found = [repair.describe(item) for item in refused if item.kind != "missing"]
    missing = [item for item in refused if item.kind == "missing" and not repair.is_meant(item)]
    local = [item for item in missing if _is_local_rank(_shown(item))]
    groups = ([item for item in missing if item not in local], local)
    found += [repair.describe_missing(group) for group in groups if group]
    for message, fix, place, corrected in found:  # the command has all corrections only now
        yield Problem(message, repair.line.with_command(fix) if corrected else fix, place)


class TypedCommand:
    """What was typed, while mistakes in the script's arguments are corrected."""

    def __init__(self, typed: tuple[str, ...]) -> None:
        self._words = list(typed)

    def replace(self, old: str, new: str) -> bool:
        """Put a word, or a part of `--name=value`, in another one's place; return whether it was found."""
        front = self._front()
        for place, word in enumerate(self._words[front:], front):
            name, equals, value = word.partition("=")
            if old in (word, name) or (equals and value == old):
                self._words[place] = (
                    new if word == old else "=".join(new if part == old else part for part in (name, value))
                )
                return True
        return False

    def move_to_front(self, option: str, *, takes_value: bool) -> bool:
        """Move an option of gpulaunch in front of `--`; return whether it was behind it."""
        front = self._front()
        for place, word in enumerate(self._words[front:], front):
            if word.partition("=")[0] == option:
                end = place + (2 if takes_value and "=" not in word else 1)
                moved = self._words[place:end]
                del self._words[place:end]
                self._words[front - 1 : front - 1] = moved
                return True
        return False

    def add(self, *words: str) -> bool:
        """Add arguments of the script; return whether anything was typed to which they are added."""
        if self._words:
            self._words += [*(() if "--" in self._words else ("--",)), *words]
        return bool(self._words)

    def with_command(self, fix: str) -> str:
        """Return a fix with the whole command behind it."""
        words = self._words[:-1] if self._words[-1] == "--" else self._words
        return f"{fix}{'' if fix.endswith('?') else ':'} {shlex.join(redact_words(words))}"

    def _front(self) -> int:
        """Return where the script's arguments, or its command, start."""
        return self._words.index("--") + 1 if "--" in self._words else len(self._words)


_Said: TypeAlias = tuple[str, str, str, bool]  # message, fix, place, whether the line was corrected


class _Repair:
    """What is said of refused arguments, and the command line without them."""

    def __init__(self, name: str, parser: ScriptParser, job: Job) -> None:
        self._path, self._parser, self._job = name, parser, job
        self._meant = set[str]()  # what unknown options are taken for
        self.line = TypedCommand(job.typed)

    def is_meant(self, item: "RefusedArgument") -> bool:
        """Whether it is missing only because an option before it is misspelt."""
        return not self._meant.isdisjoint(item.argument.names if item.argument else ())

    def describe_missing(self, items: Sequence["RefusedArgument"]) -> _Said:
        """Return what is said of all required arguments that lack, and of the place of the first."""
        names = [_shown(item) for item in items]
        place, them = str((items[0].argument or self._parser).place), "it" if len(names) == 1 else "them"
        message = f"{self._path} requires {', '.join(names)}, and this launch does not give {them}"
        if _is_local_rank(names[0]):
            default = 'default=int(os.environ["LOCAL_RANK"])'
            return message, f"{default} in place of required: torchrun does not pass it", place, False
        corrected = [self.line.add(*((name,) if name.startswith("-") else ()), "VALUE") for name in names]
        return message, f"add {', '.join(names)}", place, all(corrected)

    def describe(self, item: "RefusedArgument") -> _Said:
        """Return what is wrong with an argument that was given, how to repair it, and its place."""
        place = str((item.argument or self._parser).place)
        if item.kind == "value":
            fix, corrected = self._value(item.argument)
            says = redact_text(shorten(item.says, _MOST_WORDS))
            return f"the parser of {self._path} ends every rank: {says}", fix, place, corrected
        name = shorten(item.word.partition("=")[0], _MOST_LETTERS)
        if not name.startswith("-"):
            message = f"{self._path} takes no further argument, and gets {redact_text(name)}"
            return message, "leave it out; a value of several words goes in quotes", place, False
        fix, corrected = self._unknown(name)
        ends = _OF_FIRE if self._parser.by == "fire.Fire" else "its parser ends every rank"
        return f"{name} is not an option of {self._path}: {ends}", fix, place, corrected

    def _unknown(self, name: str) -> tuple[str, bool]:
        options = [option for item in self._parser.arguments for option in item.names if option[0] == "-"]
        near = find_nearest_option(name, options)
        if name == self._job.command.local_rank_option:
            return 'the launcher passes it: add_argument("--local_rank", "--local-rank", type=int)', False
        if name in OWN_SWITCHES | OWN_OPTIONS and near.replace("_", "-") != name:
            moved = self.line.move_to_front(name, takes_value=name in OWN_OPTIONS)
            return f"{name} is an option of gpulaunch: put it in front of --", moved
        if near:
            self._meant.add(near)
            return self._name_meant(near, self.line.replace(name, near))
        ours = _OF_LAUNCHERS.get(name.lstrip("-").replace("_", "-"))
        if ours:
            return f"{name} is an option of a launcher; in gpulaunch {ours} goes in front of --", False
        if self._parser.by == "hydra.main":
            return f"Hydra takes overrides without dashes: {name.lstrip('-')}=VALUE", False
        known = ", ".join(item.shown for item in self._parser.arguments if item.shown[0] == "-")
        return f"leave it out; its options: {shorten(known, _MOST_WORDS) or 'none'}", False

    def _value(self, argument: ParserArgument | None) -> tuple[str, bool]:
        if argument is None:
            return "give what it asks for", False
        if self._parser.by == "hydra.main":
            return "an override is NAME=VALUE, +NAME=VALUE or ~NAME", False
        given = [value for name, value in read_option_values(self._job.args) if name in argument.names]
        near = _find_near_value(argument, given[-1]) if given else ""
        if near:
            return self._name_meant(near, self.line.replace(given[-1], near))
        return f"a value as {argument.place} declares it", False

    def _name_meant(self, near: str, corrected: bool) -> tuple[str, bool]:  # noqa: FBT001 - what it says of the line
        where = "" if corrected or not self._job.typed else " It is in `args:` of the run config"
        return f"did you mean {near}?{where}", corrected


def _shown(item: "RefusedArgument") -> str:
    return item.word if item.argument is None else item.argument.shown


def _is_local_rank(name: str) -> bool:
    return name.strip("-").replace("-", "_") == "local_rank"


def _find_near_value(argument: ParserArgument, given: str) -> str:
    """Return the choice that is spelled most like a value, or a whole number such as 1e5 as an int."""
    choices = [str(choice) for choice in argument.choices or ()]
    same = [choice for choice in choices if choice.lower() == given.lower()]
    if choices:
        return same[0] if same else find_nearest_word(given, choices)
    if argument.kind == "int" and _WHOLE.fullmatch(given):
        number = float(given)
        return str(int(number)) if number.is_integer() else ""
    return ""
