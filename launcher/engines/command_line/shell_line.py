"""One launch in a text as a person copies it from a page or a script. Pure.

Continued lines and comments are understood, and what prepares or follows the command: `cd DIR &&`,
`export NAME=VALUE`, `NAME=VALUE` and arrays in lines before it, `source .../activate`, `&`, `2>&1 | tee log`.
Several commands are not one launch, but for one that a page prints for each node.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from launcher.engines.command_line import preparations
from launcher.engines.command_line.expansions import Value
from launcher.engines.command_line.page_text import commands_text
from launcher.engines.command_line.records import Environment
from launcher.engines.command_line.shell_tokens import Operator, split_text
from launcher.engines.command_line.words import Word, require_known, without_itself
from launcher.errors import CommandRefused
from preflight.frozen import dataclass

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_REDIRECTION = re.compile(r"&?\d?(>>?|<)(&(\d|-)?)?$")
_DECLARATIONS = ("export", "declare", "local", "readonly", "typeset", "setenv", "set")
_ARGUMENTS = re.compile(r"\$(?:[@*]|\{[@*])")
_NO_ARGUMENTS = "$@: the text has no arguments of its own"
_AFTER = "it has no effect after the launch"
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


def split_line(text: str, environ: Mapping[str, str]) -> ShellLine:
    """Split a text of one command; `environ` fills in `$NAME`, and what it lacks stays unresolved.

    Raises CommandRefused for several commands, shell loops, and quotes that do not end.
    """
    shell = _Shell(environ)
    found: list[preparations.FoundCommand] = []
    launch: ShellLine | None = None
    ended = ""
    for words, end in shell.commands(commands_text(text)):
        after = bool(found)
        if ended == "|" and words[0].text in ("tee", "cat"):
            shell.dropped.append(f"| {words[0].text}: {_LOG}")
        elif sentence := preparations.dropped(words, after=after):
            shell.dropped.append(sentence)
        elif launch is not None and preparations.is_of_shell(words):
            shell.dropped.append(f"{words[0].text}: {_AFTER}")
        elif (after and launch is not None) or not shell.prepare(words):
            preparations.refuse(words, found)
            found.append(preparations.FoundCommand(words, ended))
            if launch is None and preparations.is_launch(words):
                launch = shell.line(words)
        ended = end.replace("|&", "|")
    if options := re.findall(r"^[ \t]*#SBATCH[ \t]+(\S+)", text, re.MULTILINE):
        shell.dropped.append(f"#SBATCH {', '.join(dict.fromkeys(options))}: {_SBATCH}")
    if _ARGUMENTS.search(text):
        shell.dropped.append(_NO_ARGUMENTS)
    if not found:
        raise CommandRefused(
            "the line has no command", "paste it from torchrun, accelerate or python on, to its end"
        )
    shell.dropped += preparations.only_one(found)
    line = launch or shell.line(found[0].words)
    return replace(line, dropped=tuple(dict.fromkeys(shell.dropped)))


class _Shell:
    """What commands in front of the launch leave behind."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.values: dict[str, Value] = dict(environ)
        self.directory = ""
        self.start = environ.get("PWD", "")
        self.before = ""  # what `cd -` returns to
        self.exports: dict[str, Word] = {}
        self.unset: list[str] = []
        self.environment: Environment | None = None
        self.dropped: list[str] = []

    def commands(self, text: str) -> Iterator[tuple[tuple[Word, ...], str]]:
        """Yield the words of every command and the operator behind it, without redirections and arrays."""
        words: list[Word] = []
        groups = 0
        tokens = split_text(text, self.values)
        for token in tokens:
            if isinstance(token, Word):
                words.append(token)
            elif token.text == "(" and words and _ASSIGNMENT.fullmatch(words[-1].text):
                self._assign_array(words.pop().text, _array(tokens))
            elif (token.text == "(" and not words) or (token.text == ")" and groups):
                groups += 1 if token.text == "(" else -1
                if words:
                    yield tuple(words), ";"
                words = []
            elif token.text in "()" or token.text.startswith("<<"):
                raise _not_one_command(token.text, words)
            elif _REDIRECTION.fullmatch(token.text):
                target = "" if re.search(r"&[\d-]$", token.text) else _target(tokens)
                self.dropped.append(f"{token.text} {target}".rstrip() + f": {_LOG}")
            else:
                if token.text == "&":
                    self.dropped.append(f"&: {_DETACH}")
                if words:
                    yield tuple(words), token.text
                words = []
        if words:
            yield tuple(words), ""

    def line(self, words: tuple[Word, ...]) -> ShellLine:
        """Return a command as what came before it has prepared it."""
        exports, unset = tuple(self.exports.items()), tuple(self.unset)
        return ShellLine(words, self.directory, exports, unset, self.environment)

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
        elif name == "unset":
            self.unset += [word.text for word in rest if not word.text.startswith("-")]
        elif environment is not None:
            path = environment.path and posixpath.join(self.directory, environment.path)
            self.environment = replace(environment, path=path)
            self.dropped.append(f"{name} {rest[0].text}: {preparations.INTERPRETER}")
        else:
            return False
        return True

    def _change_directory(self, to: Word) -> None:
        require_known(to, "cd")
        if to.text == "-":
            self.directory, self.before = self.before, self.directory
        else:
            self.before = self.directory
            self.directory = posixpath.normpath(posixpath.join(self.directory, to.text))
        if self.start:
            self.values["PWD"] = posixpath.normpath(posixpath.join(self.start, self.directory))

    def _assign_array(self, name: str, words: tuple[Word, ...]) -> None:
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
        preparations.refuse(tuple(words), ())
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


def _target(tokens: Iterator[Word | Operator]) -> str:
    token = next(tokens, None)
    if isinstance(token, Word):
        return token.text
    raise CommandRefused("the line ends after a redirection", "take > out, or name its file")
