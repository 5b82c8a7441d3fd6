"""One launch in a text as a person copies it from a page or a script. Pure.

Continued lines and comments are understood, and what prepares or follows the command: `cd DIR &&`,
`export NAME=VALUE`, `NAME=VALUE` and arrays in lines before it, `source .../activate`, `&`, `2>&1 | tee log`.
Conditions are read where the text's own values decide them, and left out where they launch nothing.
Several commands are not one launch, but for one that a page prints for each node.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from launcher.engines.command_line import preparations
from launcher.engines.command_line.expansions import Value, arithmetic
from launcher.engines.command_line.page_text import commands_text
from launcher.engines.command_line.records import Environment
from launcher.engines.command_line.shell_blocks import ShellBlocks, is_alone
from launcher.engines.command_line.shell_tokens import Operator, split_text
from launcher.engines.command_line.words import Word, require_known, without_itself, without_values
from launcher.errors import CommandRefused
from preflight.frozen import dataclass

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_CALCULATED = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*)\s*(?:(?P<mark>[+*/%-]?)=(?P<expression>[^=].*)|(?P<step>\+\+|--))\s*",
    re.ASCII,
)
_REDIRECTION = re.compile(r"&?\d?(>>?|<)(&(\d|-)?)?$")
_SUBMITTED = re.compile(
    r"\$\{?(?:SLURM_SUBMIT_DIR|PBS_O_WORKDIR|SGE_O_WORKDIR|LS_SUBCWD|PJM_O_WORKDIR)\}?(?:/+(?P<inside>.*))?"
)
_DECLARATIONS = ("export", "declare", "local", "readonly", "typeset", "setenv", "set")
_COMMENT_INSIDE = re.compile(r"\\[ \t]*\n[ \t]*#[^\n]*\n[ \t]*[^\s#]")
_ARGUMENTS = re.compile(r"\$(?:[@*#]|\{[@*])")
_NO_ARGUMENTS = "$@: the text has no arguments of its own"
_BLOCK = "read where the values of the text decide it, and left out elsewhere"
_AFTER = "it has no effect after the launch"
_BEHIND = "it comes after the launch: do it when the run has ended (on_end: of a run config starts a program)"
_SBATCH = "for sbatch alone; `slurm:` of a run config says it to gpulaunch submit"
_LOG = "every rank has a log of its own in gpulaunch-runs"
_DETACH = "a run continues without its client; --detach leaves at once"


@dataclass(frozen=True, slots=True)
class ShellLine:
    """The one command of a text, and what prepares it."""

    words: tuple[Word, ...]
    directory: str = ""
    exports: tuple[tuple[str, Word], ...] = ()
    unset: tuple[str, ...] = ()
    environment: Environment | None = None
    dropped: tuple[str, ...] = ()
    exported: Mapping[str, Value] = field(default_factory=dict)  # what a shell inside of it sees


def split_line(text: str, environ: Mapping[str, Value]) -> ShellLine:
    """Split a text of one command; `environ` fills in `$NAME`, and what it lacks stays unresolved.

    Raises CommandRefused for several commands, shell loops, and quotes that do not end.
    """
    shell = _Shell(environ)
    found: list[preparations.FoundCommand] = []
    launch: ShellLine | None = None
    ended = ""
    is_left_out = False
    for words, end in shell.commands(commands_text(text)):
        after = bool(found)
        ended = "|" if shell.is_piped else ended
        if shell.blocks.take(words, end, shell.values):
            ended = end.replace("|&", "|") if end in ("|", "|&") else ";"
            continue
        runs = shell.blocks.runs
        if runs is None:
            shell.leave_out(words)
        elif runs is False:
            pass
        elif ended == "|" and is_left_out:
            pass  # ps | grep | sh behind the launch: its first command is said
        elif sentence := _without_effect(words, ended, after=after, is_behind=launch is not None):
            shell.dropped.append(sentence)
            is_left_out = launch is not None and not (ended == "|" and words[0].text in ("tee", "cat"))
        elif (after and launch is not None) or not shell.prepare(words):
            is_left_out = False
            preparations.refuse(words, found)
            found.append(preparations.FoundCommand(words, ended))
            if launch is None and preparations.is_launch(words):
                launch = shell.line(words)
        shell.blocks.after(end)
        ended = end.replace("|&", "|")
    shell.dropped += [f"{kind}: {_BLOCK}" for kind in shell.blocks.kinds]
    if options := re.findall(r"^[ \t]*#SBATCH[ \t]+(\S+)", text, re.MULTILINE):
        shell.dropped.append(f"#SBATCH {', '.join(dict.fromkeys(options))}: {_SBATCH}")
    if _ARGUMENTS.search(text):
        shell.dropped.append(_NO_ARGUMENTS)
    if not found:
        raise CommandRefused(
            "the line has no command", "paste it from torchrun, accelerate or python on, to its end"
        )
    if len(found) > 1 and _COMMENT_INSIDE.search(text):
        raise preparations.ended(found[1].words[0].text)
    shell.dropped += preparations.only_one(found)
    line = launch or shell.line(found[0].words)
    return replace(line, dropped=tuple(dict.fromkeys(shell.dropped)), exported=shell.exported())


def _without_effect(words: tuple[Word, ...], ended: str, *, after: bool, is_behind: bool) -> str:
    """Return what is said of a command without effect on the launch; "" for any other.

    `after`: behind another command; `is_behind`: behind the launch.
    """
    name = words[0].text
    if ended == "|" and name in ("tee", "cat"):
        return f"| {name}: {_LOG}"
    if sentence := preparations.dropped(words, after=after):
        return sentence
    if is_behind and preparations.is_of_shell(words):
        return f"{name}: {_AFTER}"
    is_setup = is_behind and ended != "|" and preparations.is_setup(words)
    return f"{name}: {_BEHIND}" if is_setup else ""


class _Shell:
    """What commands in front of the launch leave behind."""

    def __init__(self, environ: Mapping[str, Value]) -> None:
        self.environ = environ
        self.blocks = ShellBlocks()
        self.values: dict[str, Value] = dict(environ)
        self.directory = ""
        start = environ.get("PWD", "")
        self.start = start if isinstance(start, str) else ""
        self.before = ""  # what `cd -` returns to
        self.exports: dict[str, Word] = {}
        self.visible: set[str] = set()  # exported, what no rank needs included
        self.unset: list[str] = []
        self.environment: Environment | None = None
        self.dropped: list[str] = []
        self.is_piped = False  # the next command reads what commands in parentheses print

    def commands(self, text: str) -> Iterator[tuple[tuple[Word, ...], str]]:
        """Yield the words of every command and the operator behind it, without redirections and arrays."""
        words: list[Word] = []
        groups = 0
        has_array = False
        tokens = split_text(text, self.values)
        for token in tokens:
            if isinstance(token, Word):
                words.append(token)
                if len(words) == 1 and is_alone(token.text):
                    yield (words.pop(),), ";"
            elif token.text == "(" and words and _ASSIGNMENT.fullmatch(words[-1].text):
                self._assign_array(words.pop().text, _array(tokens))
                has_array = not words
            elif token.text == "<<<":
                self._read_text(words, _target(tokens))
                has_array = True
            elif _REDIRECTION.fullmatch(token.text):
                self._redirect(token.text, words, tokens)
            else:
                groups = self._groups(token.text, words, groups)
                if words:
                    yield tuple(words), ";" if token.text in "()" else token.text
                elif has_array:
                    self.blocks.after(token.text)
                self.is_piped = not words and token.text in ("|", "|&")
                words, has_array = [], False
        if words:
            yield tuple(words), ""

    def _groups(self, operator: str, words: list[Word], groups: int) -> int:
        """Return how many parentheses are open behind an operator; a pattern of `case` has no words.

        Raises CommandRefused for parentheses that are of no group, and for a file written in place.
        """
        if operator == ")" and words and words[0].text == "case":
            return groups  # `case $NAME in a)`
        if operator == ")" and self.blocks.in_case and not groups:
            words.clear()  # a pattern of `case`
        elif (operator == "(" and not words) or (operator == ")" and groups):
            return groups + (1 if operator == "(" else -1)
        elif operator in "()" or operator.startswith("<<"):
            raise _not_one_command(operator, words)
        elif operator == "&":
            self.dropped.append(f"&: {_DETACH}")
        return groups

    def _read_text(self, words: list[Word], text: Word) -> None:
        """Take `IFS=, read -ra NAME <<< TEXT`. Raises CommandRefused for any other text in place."""
        shown = [word.text for word in words]
        is_read = shown[:1] == ["read"] or shown[1:2] == ["read"]
        if not is_read or not re.fullmatch(r"[A-Za-z_]\w*", shown[-1]):
            raise CommandRefused("the text gives a command its input (<<<)", "paste the launch alone")
        separator = shown[0].removeprefix("IFS=") if shown[0].startswith("IFS=") else None
        is_array = any(re.fullmatch(r"-\w*a", word) for word in shown)
        parts = tuple(Word(part) for part in text.text.split(separator or None))
        value: Value = text if not text.is_known else parts if is_array else text.text
        if self.blocks.runs is None:
            self._forget(shown[-1], is_exported=False)
        elif self.blocks.runs:
            self.values[shown[-1]] = value
        words.clear()

    def _redirect(self, operator: str, words: list[Word], tokens: Iterator[Word | Operator]) -> None:
        target = "" if re.search(r"&[\d-]$", operator) else _target(tokens).text
        is_of_loop = words[:1] == [Word("done")]
        if (
            operator.endswith("<")
            and target != "/dev/null"
            and not is_of_loop
            and self.blocks.runs is not False
        ):
            raise CommandRefused(
                f"the line reads {target} as its input, and ranks have none",
                "give the file to the script as an argument",
            )
        if not operator.endswith("<") and self.blocks.runs is not False:
            self.dropped.append(f"{operator} {target}".rstrip() + f": {_LOG}")

    def line(self, words: tuple[Word, ...]) -> ShellLine:
        """Return a command as what came before it has prepared it."""
        exports, unset = tuple(self.exports.items()), tuple(self.unset)
        return ShellLine(words, self.directory, exports, unset, self.environment)

    def exported(self) -> Mapping[str, Value]:
        """Return the variables that a shell inside of the text sees."""
        return {**self.environ, **{name: self.values[name] for name in self.visible & self.values.keys()}}

    def leave_out(self, words: tuple[Word, ...]) -> None:
        """Take a command of which the text does not decide whether it runs: what it sets has no value.

        Raises CommandRefused for one that launches something, or enters a directory or an environment.
        """
        name, rest = words[0].text, words[1:]
        is_declaration = name in _DECLARATIONS
        if name in ("((", "let"):
            self._calculate(rest[:-1] if name == "((" else rest, is_certain=False)
            return
        if is_declaration or all(_ASSIGNMENT.match(word.text) for word in words):
            for word in rest if is_declaration else words:
                self._forget(word.text.partition("=")[0].rstrip("+"), is_exported=name == "export")
        elif preparations.is_setup(words) and not preparations.is_of_shell(words):
            self.dropped.append(f"{name}: do it on each host yourself, where it is needed")
        elif not preparations.dropped(words, after=True):
            raise preparations.undecided(self.blocks.kind)

    def _forget(self, name: str, *, is_exported: bool, why: str = "set in a condition") -> None:
        if re.fullmatch(r"[A-Za-z_]\w*", name):
            shown = f"${name} ({why})"
            self.values[name] = Word(shown, (shown,))
            if is_exported or name in self.exports:
                self.exports[name] = Word(shown, (shown,))

    def prepare(self, words: tuple[Word, ...]) -> bool:
        """Take a command that only prepares the launch; return False for any other."""
        name, rest = words[0].text, words[1:]
        environment = preparations.entered(words)
        if name in ("cd", "pushd") and len(rest) <= 1:
            self._change_directory(rest[0] if rest else Word("~"))
        elif name == "setenv" and len(rest) == 2:  # NAME VALUE of csh
            self._assign((Word(f"{rest[0].text}={rest[1].text}", rest[1].unresolved),), is_exported=True)
        elif name in _DECLARATIONS or all(_ASSIGNMENT.match(word.text) for word in words):
            is_exported = name in ("export", "set") or any(word.text == "-x" for word in rest)
            self._assign(rest if name in _DECLARATIONS else words, is_exported=is_exported)
        elif name in ("((", "let"):
            self._calculate(rest[:-1] if name == "((" else rest)
        elif name in ("read", "mapfile", "readarray"):  # no user types, and nothing is run
            for word in rest:
                self._forget(word.text, is_exported=False, why="read from a terminal or a file")
        elif name in ("unset", "unsetenv"):
            self.unset += [word.text for word in rest if not word.text.startswith("-")]
        elif environment is not None:
            path = environment.path and posixpath.join(self.directory, environment.path)
            self.environment = replace(environment, path=path)
            self.dropped.append(f"{name} {rest[0].text}: {preparations.INTERPRETER}")
        else:
            return False
        return True

    def _calculate(self, words: tuple[Word, ...], *, is_certain: bool = True) -> None:
        """Take `let NAME=EXPRESSION` and `((NAME = EXPRESSION))`: what cannot be calculated has no value."""
        for word in words:
            found = _CALCULATED.fullmatch(word.text)
            if found is None:
                continue
            name, right = found["name"], found["expression"] or "1"
            mark = found["mark"] or (found["step"] or "")[:1]
            number = arithmetic(f"{name} {mark} ({right})" if mark else right, self.values)
            if not is_certain:
                self._forget(name, is_exported=False)
            elif number is None:
                self.values.pop(name, None)
            else:
                self.values[name] = str(number)

    def _change_directory(self, to: Word) -> None:
        submitted = _SUBMITTED.fullmatch(to.text) if len(to.unresolved) == 1 else None
        if submitted is not None:  # the directory that a batch script is submitted in, where it is pasted
            self.directory, to = "", Word(submitted["inside"] or ".")
        require_known(to, "cd")
        if to.text == "-":
            self.directory, self.before = self.before, self.directory
        else:
            self.before = self.directory
            self.directory = posixpath.normpath(posixpath.join(self.directory, to.text))
        if self.start:
            self.values["PWD"] = posixpath.normpath(posixpath.join(self.start, self.directory))

    def _assign_array(self, name: str, words: tuple[Word, ...]) -> None:
        if self.blocks.runs is None:
            self._forget(name.rstrip("+="), is_exported=False)
        if self.blocks.runs is not True:
            return
        before = self.values.get(name.rstrip("+=")) if name.endswith("+=") else ()
        self.values[name.rstrip("+=")] = (*(before if isinstance(before, tuple) else ()), *words)

    def _assign(self, words: tuple[Word, ...], *, is_exported: bool) -> None:
        for word in words:
            name, equals, value = word.text.partition("=")
            if word.text.startswith("-"):
                continue
            before = self.values.get(name.rstrip("+"))
            lacking = word.unresolved
            if name.endswith("+"):
                name = name[:-1]
                first = (
                    before if isinstance(before, Word) else Word(before if isinstance(before, str) else "")
                )
                value, lacking = first.text + value, (*first.unresolved, *lacking)
            assigned = without_itself(name, Word(value, lacking))
            if equals:
                self.values.pop(name, None)  # one of this machine's environment is not meant
                self.values[name] = assigned.text if assigned.is_known else assigned
            if is_exported:
                self.visible.add(name)
            if is_exported and (why := preparations.needless(assigned)):
                self.dropped.append(f"export {name}: {why}")
            elif is_exported and (equals or isinstance(before, str)):
                self.exports[name] = assigned if equals else Word(str(before))
            elif name in self.exports:
                self.exports[name] = assigned


def _not_one_command(operator: str, words: list[Word]) -> CommandRefused:
    if operator.startswith("<<"):
        return CommandRefused(
            "the text writes a file in place (<<)",
            "write the file first, and paste the command alone",
        )
    if operator == "(" and words and words[0].text in preparations.LOOPS:
        raise preparations.undecided(words[0].text)
    if not all(word.is_known for word in words):
        return without_values(words, "the line")
    if operator == "(" and len(words) == 1:
        return CommandRefused(
            f"the text has a shell function, {words[0].text}", "paste the command inside of it"
        )
    return CommandRefused("the line has a subshell, in parentheses", "paste the command inside of it")


def _array(tokens: Iterator[Word | Operator]) -> tuple[Word, ...]:
    words: list[Word] = []
    for token in tokens:
        if isinstance(token, Word):
            words.append(token)
        elif token.text == ")":
            return tuple(words)
        elif token.text != "\n":
            break
    raise CommandRefused("the array has no end", "close its parenthesis, or paste all of it")


def _target(tokens: Iterator[Word | Operator]) -> Word:
    token = next(tokens, None)
    if isinstance(token, Word):
        return token
    raise CommandRefused("the line ends after a redirection", "take > out, or name its file")
