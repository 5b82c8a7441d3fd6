"""What `$(...)` prints where the text says it: its commands are read as those around it. Pure.

Known are commands of the shell and small programs whose input the text gives; any other leaves it without a
value. The directory of the text's script (`$(dirname $0)`) is the one that it is pasted in, and `$(date +%F)`
is the time that EPOCHSECONDS gives, as in bash.
"""

import posixpath
import time
from collections.abc import Callable, Sequence
from copy import copy

from launcher.engines.command_line.shell.arithmetic import evaluate_arithmetic
from launcher.engines.command_line.shell.blocks import LEAVES
from launcher.engines.command_line.shell.bracket_tests import Answer
from launcher.engines.command_line.shell.commands import CommandReader
from launcher.engines.command_line.shell.pipelines import MOST_PRINTED, predict_output
from launcher.engines.command_line.shell.redirections import INPUT
from launcher.engines.command_line.shell.replay_limits import Replays
from launcher.engines.command_line.shell.state import ShellState
from launcher.engines.command_line.shell.terminals import SENTENCE
from launcher.engines.command_line.shell.variables import Values
from launcher.engines.command_line.shell.words import Word, is_assignment
from launcher.errors import CommandRefused
from preflight import regex as re

_LOOKUP = re.compile(
    r"(?:which|command -v|type -[pP]) (torchrun|accelerate|deepspeed|fabric|python[\d.]*)", re.ASCII
)
_OWN_PATH = r"[\"']?\$(?:0|\{0\}|\{BASH_SOURCE(?:\[0\])?(?::-\$0)?\}|BASH_SOURCE)[\"']?"
_OWN = re.compile(rf"{_OWN_PATH}|\$\(\s*(?:realpath|readlink -f) (?:-- )?{_OWN_PATH}\s*\)")
_DATE = re.compile(r"\+((?:[^%]|%-?[A-MO-Za-pr-z%])*)", re.DOTALL)
_NUMBERS = re.compile(r"(?:(?:0|-?[1-9]\d*|[-+*/%()])(?: |$))+")
_OF_JOB = re.compile(r"scontrol show hostnames?(?: \S*SLURM_(?:JOB_)?NODELIST\S*)?$")
_UNNAMED = "\0"  # a node of the job that the script asks for
_OPTIONS = {"pwd": "-[PL]", "cd": "-[PL]|--", "realpath": "-[sm]|--", "readlink": "-f|--"}
"""Those without effect on what is read, of programs that have such."""

_QUIET = ("[", "[[", "test", "((", "true", "false", ":", "then", "do")  # what a condition may have

_SILENT = re.compile(
    r"(?:(?:local|declare|typeset|readonly|export)(?: -[aAgilrux]+)*|unset) [A-Za-z_]|\(\(|let |printf -v "
)


def make_reader(shell: ShellState, replays: Replays) -> Callable[[str], tuple[str | None, Answer]]:
    """Return what reads `$(...)` or a command in backticks with the variables that `shell` has by then.

    It gives what is printed, None where the text does not say it, and whether the last command succeeds.
    """

    def read(shown: str) -> tuple[str | None, Answer]:
        written = shown[2:-1] if shown[0] == "$" else re.sub(r"\\([$`\\])", r"\1", shown[1:-1])
        depth = replays.depth
        try:
            replays.count(written)
            replays.depth += 1
            output = _Output(shell, replays)
            output.read(written)
        except (CommandRefused, _Unknown):
            return None, None
        finally:
            replays.depth = depth
        known = output.text.rstrip("\n") if _UNNAMED not in output.text else None
        return known, output.shell.blocks.last

    return read


class _Unknown(Exception):
    """The text does not say what is printed."""


def _require(*known: object) -> None:
    if not all(known):
        raise _Unknown


class _Output:
    """What the commands of one substitution print."""

    def __init__(self, around: ShellState, replays: Replays) -> None:
        self.shell = shell = ShellState(around.values)
        shell.functions, shell.place = dict(around.functions), copy(around.place)
        shell.is_output, shell.blocks.code = True, around.blocks.code
        shell.values.read_output = make_reader(shell, replays)
        if "IFS" in around.values:
            shell.values["IFS"] = around.values["IFS"]
        self.replays = replays
        self.text = ""
        self.piped: str | None = None  # into the next command

    def read(self, text: str) -> None:
        """Take every command. Raises CommandRefused and _Unknown where the output is not known."""
        shell, blocks = self.shell, self.shell.blocks
        for words, end in CommandReader(text, shell, self.replays).commands():
            asked = words[1:] if words[0].text == "!" else words
            is_asked = blocks.in_condition and blocks.asks_next is not False
            _require(not shell.is_piped, end not in ("&", "|&"), not is_asked or asked[0].text in _QUIET)
            if blocks.take(words, end, shell.values):
                _require(end != "|", self.piped is None or words[0].text in ("{", "if", "case"))
                _require(not any("?" in part for word in words for part in word.unresolved))  # `${NAME:?}`
                continue
            if blocks.runs is not False:
                self._take(words, end)
            blocks.take_program(end, words)
            blocks.code = None if words[0].text == "cd" and end not in ("&&", "||") else blocks.code
        is_typed = any(said.endswith(SENTENCE) for said in shell.dropped)
        _require(not (shell.is_piped or shell.unknown or is_typed or blocks.open), self.piped is None)

    def _take(self, words: tuple[Word, ...], end: str) -> None:
        """Take a command that may run."""
        shell, given = self.shell, self.piped
        is_part = end == "|" or given is not None
        _require(shell.blocks.runs, shell.parts == is_part)
        _require(words[0].text not in LEAVES)
        if words[0] == INPUT:
            given, words = words[1].text if words[1].is_known else None, words[2:]
        words = words[1:] if words[:1] == (Word("command"),) and words[1:2] != (Word("-v"),) else words
        _require(words)
        printed = "" if self._prepares(words) else _print(words, given, shell.values)
        if printed is None or len(self.text) + len(printed) > MOST_PRINTED:
            raise _Unknown
        if shell.blocks.status is None and words[0].text != "cd":  # which the host's directories decide
            shell.blocks.status = words[0].text != "expr" or printed not in ("", "0\n")
        printed = "" if shell.redirected else printed
        self.piped = printed if end == "|" else None
        self.text += printed if end != "|" else ""

    def _prepares(self, words: tuple[Word, ...]) -> bool:
        """Take a command that prints nothing; return False for any other."""
        shell = self.shell
        if words[0].text == "cd":
            words = (words[0], *_without_options(words))
            _require(len(words) == 2, words[-1].is_known, words[-1].text[:1] not in ("-", "~", ""))
            _require("CDPATH" not in shell.values)
        elif not (all(map(is_assignment, words)) or _SILENT.match(" ".join(word.text for word in words))):
            return shell.take_arguments(words)
        return shell.prepare(words)


def _without_options(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the words behind a program and the options without effect on what is read."""
    options, rest = _OPTIONS.get(words[0].text, "--"), words[1:]
    while rest and re.fullmatch(options, rest[0].text):
        rest = rest[1:]
    return rest


def _print(words: tuple[Word, ...], given: str | None, values: Values) -> str | None:
    """Return what a program prints that is `given` an input; None where the text does not say it."""
    name, rest = words[0].text, _without_options(words)
    nodes = values.get("SLURM_NNODES", "")
    if _OF_JOB.match(" ".join(word.text for word in words)) and isinstance(nodes, str) and nodes.isdecimal():
        return f"{_UNNAMED}\n" * min(int(nodes), MOST_PRINTED)  # which `wc -l` counts
    if name == "dirname" and len(rest) == 1 and rest[0].unresolved and _OWN.fullmatch(rest[0].text):
        return ".\n"
    if not all(word.is_known for word in words):
        return None
    texts = [word.text for word in words]
    program = _LOOKUP.fullmatch(" ".join(texts))
    found = program[1] if program is not None else _named(name, [word.text for word in rest], values)
    return predict_output(texts, given) if found is None else f"{found}\n"


def _named(name: str, rest: Sequence[str], values: Values) -> str | None:
    """Return what a program prints that asks for a name, a number or the time, or makes a path of another."""
    path, *suffix = rest or [""]
    said = {"pwd": values.get("PWD"), "whoami": values.get("USER")}.get(name)
    now, date = values.get("EPOCHSECONDS"), _DATE.fullmatch(path)
    if name in ("pwd", "whoami"):
        return said if isinstance(said, str) else None
    if name == "expr" and _NUMBERS.fullmatch(" ".join(rest)):
        number = evaluate_arithmetic(" ".join(rest), values)
        return None if number is None else str(number)
    if name == "date" and date is not None and not suffix and isinstance(now, str) and now.isdecimal():
        return time.strftime(date[1], time.localtime(int(now)))
    if path[:1] in ("", "-") or len(suffix) > (name == "basename"):
        return None
    shown = path.rstrip("/") or path
    if name == "basename":
        base = posixpath.basename(shown)
        return base.removesuffix(*suffix) if suffix and base != suffix[0] else base
    if name == "dirname" and path != ".":  # above the directory of the script, which may have any name
        return posixpath.dirname(shown) or "."
    return posixpath.normpath(path) if name in ("realpath", "readlink") else None
