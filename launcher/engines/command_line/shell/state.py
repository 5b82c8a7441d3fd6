"""What the commands in front of a launch leave behind: variables, a directory, an environment. Pure."""

import posixpath
from collections.abc import Mapping
from copy import copy
from dataclasses import replace

from launcher.engines.command_line import refusals, side_commands
from launcher.engines.command_line.parsed_command import Environment, MissingValue
from launcher.engines.command_line.shell import array_assignments, variables
from launcher.engines.command_line.shell.arithmetic import assign_number, list_assigned, read_assignment
from launcher.engines.command_line.shell.associative_arrays import MARK, is_associative
from launcher.engines.command_line.shell.blocks import Block, ShellBlocks
from launcher.engines.command_line.shell.bracket_tests import Files
from launcher.engines.command_line.shell.missing_values import list_left_open
from launcher.engines.command_line.shell.pipelines import predict_output
from launcher.engines.command_line.shell.words import (
    DECLARATIONS,
    ELEMENT,
    SEPARATORS,
    Word,
    drop_itself,
    explain_replaced,
    is_assignment,
)
from launcher.engines.command_line.shell.working_directory import WorkingDirectory
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.frozen import dataclass

FLAGS = re.compile(r"-[a-zA-Z]+")
LOCAL = ("local", "declare", "typeset")
READERS = ("read", "mapfile", "readarray")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a group in parentheses gives back at its end."""

    values: dict[str, variables.Value]
    exports: dict[str, Word]
    visible: set[str]
    environment: Environment | None
    place: WorkingDirectory
    fatal: frozenset[str]


class ShellState:
    """What commands in front of the launch leave behind."""

    def __init__(self, environ: Mapping[str, variables.Value], files: Files | None = None) -> None:
        self.environ = environ
        self.files = files
        self.blocks = ShellBlocks(files)
        self.values = variables.Variables(environ, lambda: self.blocks.runs, lambda: self.blocks.code)
        self.values.update({"OPTIND": self.values.get("OPTIND", "1"), "IFS": SEPARATORS})
        self.values.export = lambda name: self.visible.add(name) if self.exports_all else None
        self.functions: dict[str, str] = {}
        self.locals: list[dict[str, variables.Value | None]] = []  # of the functions that run: what they hide
        start = environ.get("PWD", "")
        self.place = WorkingDirectory(start if isinstance(start, str) else "")
        self.exports: dict[str, Word] = {}
        self.visible: set[str] = set()  # exported, what no rank needs included
        self.visible_functions: set[str] = set()  # `export -f`
        self.exports_all = False  # `set -a`
        self.maybe_exports: tuple[list[Block], MissingValue] | None = None  # `set -a` that may run
        self.unset: list[str] = []
        self.environment: Environment | None = None
        self.dropped: list[str] = []
        self.unknown: list[MissingValue] = []
        self.doubtful: list[tuple[tuple[Word, ...], CommandRefused]] = []  # programs that may run
        self.written: dict[str, Word | None] = {}  # files that the text writes, and what of them it says
        self.writing: list[str] = []  # those of the command that is read
        self.body: Word | None = None  # the text in place of that command
        self.redirected: list[str] = []  # what is said of its output, where it is the launch
        self.loops = 0  # around the next command
        self.returns = 0  # functions and files around it
        self.groups: list[int] = []  # in parentheses around it: how many blocks are around each
        self.left = ""  # "break", "continue", "return" or "exit", until what it leaves is left
        self.may_leave: tuple[int, int] | None = None  # the loops and returns that a condition may have left
        self.is_output = False  # of `$(...)`, whose commands are read for what they print
        self.parts = 0  # of pipelines around the next command
        self.is_piped = False  # the next command reads what commands in parentheses print

    def text_of(self, name: str) -> str | None:
        """Return the text of a file beside the text; None where it is none that may be read."""
        home = self.values.get("HOME")
        if name.startswith("~/") and isinstance(home, str):
            name = posixpath.join(home, name[2:])
        return self.files(posixpath.join(self.place.path, name)) if self.files is not None and name else None

    def enter_group(self, count: int = 1) -> Surroundings:
        """Start a group in parentheses, or a list that may run aside (0); return what it must not change."""
        self.groups += [len(self.blocks.open)] * count
        self.blocks.is_behind_pipe &= not count
        kept = self.environment, copy(self.place), self.blocks.fatal
        return Surroundings(dict(self.values), dict(self.exports), set(self.visible), *kept)

    def restore(self, before: Surroundings, count: int = 1) -> None:
        """Take back what groups in parentheses have changed; `count` of them end."""
        del self.groups[len(self.groups) - count :]
        self.values.clear()
        self.values.update(before.values)
        self.exports, self.visible = before.exports, before.visible
        self.environment, self.place, self.blocks.fatal = before.environment, before.place, before.fatal

    def list_exported(self) -> Mapping[str, variables.Value]:
        """Return the variables that a shell inside of the text sees."""
        return {**self.environ, **{name: self.values[name] for name in self.visible & self.values.keys()}}

    def list_exported_words(self) -> tuple[tuple[str, Word], ...]:
        """Return the variables that a program sees now, but for those that no rank needs."""
        found: list[tuple[str, Word]] = []
        for name in (*self.exports, *sorted(self.visible - self.exports.keys())):
            words = variables.list_elements(name, self.values)
            word = words[0] if words else self.exports.get(name)
            if word is not None and not side_commands.explain_needless(word):
                found.append((name, word))
        return tuple(found)

    def skip(self, words: tuple[Word, ...]) -> None:
        """Take for empty the options that a text sets in a branch which it does not take."""
        for name, _, value in (word.text.partition("=") for word in words if is_assignment(word)):
            if value.lstrip().startswith("-"):
                self.values.setdefault(name.partition("[")[0].rstrip("+"), ())

    def is_absent(self, words: tuple[Word, ...]) -> bool:
        """Whether a file of settings that a condition guards is none of this machine's."""
        name = words[0].text if words and words[0].is_known else ""
        return self.files is not None and name[:1] not in ("", "/", "~") and self.text_of(name) is None

    def lack(self, error: CommandRefused) -> None:
        """Take what the launch needs and the text does not say."""
        self.unknown.append(MissingValue(error.message, error.fix))

    def forget(self, name: str, *, is_exported: bool, why: str = "set in a condition") -> None:
        """Take a variable whose value the text does not decide."""
        name = name.partition("[")[0]
        if name == "IFS":
            self.lack(refusals.explain_undecided(self.blocks.kind))
        if re.fullmatch(r"[A-Za-z_]\w*", name):
            shown = f"${name} ({why})"
            self.values[name] = Word(shown, (shown,))
            if is_associative(name, self.values):
                self.values[name + MARK] = self.values[name]
            if is_exported or self.exports_all or name in self.exports:
                self.exports[name] = Word(shown, (shown,))

    def prepare(self, words: tuple[Word, ...]) -> bool:
        """Take a command that only prepares the launch; return False for any other."""
        return self._moves(words[0].text, words[1:]) or self._sets(words) or self._takes_settings(words)

    def _sets(self, words: tuple[Word, ...]) -> bool:
        """Take a command that sets variables; return False for any other."""
        name, rest = words[0].text, words[1:]
        if name == "printf" and len(rest) > 1:
            self._print(rest[1].text, rest[2:])
        elif name == "setenv" and len(rest) == 2:  # NAME VALUE of csh
            self._assign((Word(f"{rest[0].text}={rest[1].text}", rest[1].unresolved),), is_exported=True)
        elif name in DECLARATIONS:
            self._declare(name, rest)
        elif all(map(is_assignment, words)):
            self._assign(words, is_exported=False)
        elif name in ("((", "let"):
            self.calculate(rest[:-1] if name == "((" else rest)
        elif name in ("unset", "unsetenv"):
            self._unset([word.text for word in rest if not word.text.startswith("-")])
        elif name in READERS:
            for word in rest:
                self.forget(word.text, is_exported=False, why="read from a terminal or a file")
        else:
            return False
        return True

    def _takes_settings(self, words: tuple[Word, ...]) -> bool:
        """Take a command that enters an environment or reads a file; return False for any other."""
        name, rest = words[0].text, words[1:]
        environment = side_commands.find_environment(words)
        if environment is not None:
            path = environment.path and posixpath.join(self.place.path, environment.path)
            self.environment = replace(environment, path=path)
            self.dropped.append(f"{name} {rest[0].text}: {side_commands.INTERPRETER}")
        elif name in ("source", ".") or (name == "eval" and len(rest) == 1 and rest[0].is_output):
            folder, is_absent = self.place.absolute or self.place.path, self.is_absent(rest)
            error = refusals.explain_absent(words, folder) if is_absent else refusals.explain_unseen(words)
            self.lack(error)
        else:
            return False
        return True

    def _declare(self, name: str, rest: tuple[Word, ...]) -> None:
        """Take `export` and its like. Raises CommandRefused for those with a launch among their words."""
        if name == "export" and rest[:1] == (Word("-f"),):
            self.visible_functions |= {word.text for word in rest[1:]}
            return
        if launcher := side_commands.find_launcher(rest):
            raise refusals.explain_declared_launch(name, launcher)
        flags = "".join(word.text for word in rest if name in LOCAL and FLAGS.fullmatch(word.text))
        is_local = name in LOCAL and bool(self.locals) and "g" not in flags
        if is_local:
            self.hide(rest)
        if name != "export" and array_assignments.declares_associative(rest):
            self._declare_associative(rest, is_local=is_local)
        if not {*"nul"}.isdisjoint(flags):
            self.refer(f"{name} {flags}", rest)
            return
        if "i" in flags:
            self.hide(rest, " -i")
        self._assign(rest, is_exported=name in ("export", "set") or "x" in flags)
        if name == "readonly" or "r" in flags:
            self.hide(rest, " -r")
        if (name == "export" and rest[:1] == (Word("-n"),)) or rest[:1] == (Word("+x"),):
            for word in rest[1:]:
                self._unexport(word.text.partition("=")[0])

    def _declare_associative(self, words: tuple[Word, ...], *, is_local: bool) -> None:
        """Take the names of `declare -A NAME`; one that is such an array already keeps its elements."""
        for name in (word.text for word in words if word.text.isidentifier()):
            held = () if is_local else self.values.get(name + MARK, ())
            if is_local:
                self.hide((Word(name),), MARK)
            self.forget(name, is_exported=False, why="an associative array")
            self.values[name + MARK] = held

    def refer(self, name: str, words: tuple[Word, ...]) -> None:
        """Take the names of `declare -n NAME=OTHER`, either of which sets both: their values are unknown.

        So are those of `declare -u NAME`, which changes what it is given.
        """
        for part in (part for word in words for part in word.text.split("=")):
            self.forget(part, is_exported=False, why=name)
            self.hide((Word(part),), " -n")

    def _moves(self, name: str, to: tuple[Word, ...]) -> bool:
        """Take `cd`, `pushd` and `popd`; return False for any other command."""
        if name not in ("cd", "pushd", "popd") or (name != "popd" and len(to) > 1):
            return False
        try:
            self.place.move(name, to[0] if to else Word("~"))
        except CommandRefused as error:
            self.lack(error)
        if self.place.start:
            self.values["PWD"] = self.place.absolute
        return True

    def take_arguments(self, words: tuple[Word, ...]) -> bool:
        """Take `set -- WORDS`, `set -a` and `shift`; return False for any other command."""
        options = variables.parse_set_options(words)[0] if words[0].text == "set" else {}
        self.exports_all = options.get("a", self.exports_all)
        given = variables.update_arguments(words, self.values)
        if given is not None:
            self.values["@"], self.blocks.status = given
        return given is not None or "a" in options

    def may_export(self, is_on: bool, error: CommandRefused) -> None:  # noqa: FBT001 - as `set -a` says it
        """Take `set -a` and `set +a` of which the text does not decide whether they run.

        The second one in the block of the first takes it back.
        """
        around, lacking = self.blocks.open[-1:], self.maybe_exports
        if not is_on and lacking is not None and around and around == lacking[0]:
            self.unknown.remove(lacking[1])
            self.exports_all, self.maybe_exports = False, None
        elif is_on is not self.exports_all:
            self.lack(error)
            self.exports_all, self.maybe_exports = True, (around, self.unknown[-1]) if is_on else None

    def enter_function(self, given: tuple[Word, ...] | None) -> None:
        """Take the arguments of a function until `leave_function`; None where they are those of the text."""
        self.locals.append({"@": self.values.get("@")})
        if given is not None:
            self.values["@"] = given

    def leave_function(self) -> None:
        """Give back what the variables of a function hid."""
        self.give_back(self.locals.pop())

    def give_back(self, hidden: Mapping[str, variables.Value | None]) -> None:
        """Set variables to what they were; None for one that was not set."""
        for name, value in hidden.items():
            if value is None:
                self.values.pop(name, None)
                self._unexport(name)
            else:
                self.values[name] = value

    def hide(self, words: tuple[Word, ...], mark: str = "") -> None:
        """Keep what `local NAME` hides until the function ends, and take the `mark` of `declare -i NAME`."""
        for word in words:
            name, equals, _ = word.text.partition("=")
            if not name.startswith("-"):
                for hidden in self.locals[-1:]:
                    hidden.setdefault(name + mark, self.values.get(name + mark))
                if mark or not equals:
                    self.values[name + mark] = ""

    def _print(self, name: str, words: tuple[Word, ...]) -> None:
        """Take `printf -v NAME FORMAT WORDS`; what is not understood of it has no value."""
        self.forget(name, is_exported=False, why="printf -v")
        if all(word.is_known for word in words):
            text = predict_output(["printf", *(word.text for word in words)])
            self.values[name] = self.values[name] if text is None else text

    def _unset(self, names: list[str]) -> None:
        self.unset += [name for name in names if "[" not in name]
        for name in names:
            if "[" in name:
                self._forget_where(array_assignments.unset_element(self.values, name), name)
                continue
            self.values.pop(name + MARK, None)
            if isinstance(self.values.pop(name, None), tuple):
                self.values[name] = ()
            self._unexport(name)

    def _unexport(self, name: str) -> None:
        self.exports.pop(name, None)
        self.visible.discard(name)

    def calculate(self, words: tuple[Word, ...], *, is_certain: bool = True) -> None:
        """Take `let NAME=EXPRESSION` and `((NAME = EXPRESSION))`: what cannot be calculated has no value."""
        for word in words:
            name, number = read_assignment(word.text, self.values)
            for one in tuple(list_assigned(word.text)):
                if one == name.partition("[")[0] and number is not None and is_certain:
                    self._assign((Word(f"{name}={number}"),), is_exported=False)
                else:
                    why = f"set in (({word.text}))" if is_certain else "set in a condition"
                    self.forget(one, is_exported=False, why=why)

    def assign_array(self, target: str, words: tuple[Word, ...]) -> None:
        """Take `NAME=(WORDS)`, `NAME+=(WORDS)` and `NAME=([KEY]=WORD)`; `target` is the name and its mark."""
        why = array_assignments.assign_array(self.values, target, words, self.blocks.runs)
        self._forget_where(why, target.rstrip("+="))

    def _forget_where(self, why: str, name: str) -> None:
        if why:
            self.forget(name, is_exported=False, why=why)

    def _assign(self, words: tuple[Word, ...], *, is_exported: bool) -> None:
        of_all = is_exported or self.exports_all
        for word in (assign_number(word, self.values) for word in words):
            is_exported = of_all or word.text.startswith("PATH=")  # which every shell exports
            if word.text.startswith("-") or (is_exported and self.export_file(word)):
                continue
            if ELEMENT.match(word.text):
                self._forget_where(array_assignments.assign_element(self.values, word), word.text)
            else:
                self._assign_variable(word, is_exported=is_exported)

    def _assign_variable(self, word: Word, *, is_exported: bool) -> None:
        """Take `NAME=VALUE`, `NAME+=VALUE` and, where it is exported, `NAME`."""
        target, equals, value = word.text.partition("=")
        name = target.removesuffix("+")
        if equals and f"{name} -r" in self.values:
            self.lack(refusals.explain_readonly(name))
        if equals and f"{name} -n" in self.values:
            self.forget(name, is_exported=is_exported, why="declare -n")
            return
        before = self.values.get(name)
        lacking, others = word.unresolved or list_left_open(value), list[Word]()
        if name != target:
            first, *others = variables.list_elements(name, self.values) or (Word(""),)
            value, lacking = first.text + value, (*first.unresolved, *lacking)
        assigned = drop_itself(name, Word(value, lacking))
        if is_exported and assigned.text not in ("", value) and name != "PATH":
            self.dropped.append(explain_replaced(name))
        if equals:
            self.values[name] = (assigned, *others) if others else assigned.value
        if is_exported:
            self.visible.add(name)
        if is_exported and (why := side_commands.explain_needless(assigned)):
            self.dropped.append(f"export {name}: {why}")
        elif is_exported and not equals and isinstance(before, str):
            self.exports[name] = Word(before)
        elif (is_exported and equals) or name in self.exports:
            self.exports[name] = assigned

    def export_file(self, word: Word) -> bool:
        """Take `export $(cat .env | xargs)`, which is not read; return False for any other word."""
        if not word.text.startswith(word.unresolved[:1] or ("=",)):
            return False
        self.lack(refusals.explain_unseen((Word("export"), word)))
        return True
