"""One launch in a text as a person copies it from a page or a script. Pure.

Prompts (`$ `, `!`), continued lines and comments are understood, and what prepares or follows the command:
`cd DIR &&`, `export NAME=VALUE`, `NAME=VALUE` and arrays in lines before it, `source .../activate`, `&`,
`2>&1 | tee log`. Several commands are not one launch.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping

from launcher.engines.command_line.records import Environment
from launcher.engines.command_line.shell_tokens import Operator, split_text
from launcher.engines.command_line.words import Word
from launcher.errors import CommandRefused
from preflight.frozen import dataclass

_PROMPT = re.compile(
    r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[$%>][ \t]+|![ \t]*|#[ \t]+(?=(?:torchrun|accelerate|deepspeed)\b))",
    re.MULTILINE,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
_REDIRECTION = re.compile(r"&?\d?(>>?|<)(&(\d|-)?)?$")
_LOG = "every rank has a log of its own in gpulaunch-runs"
_DETACH = "a run continues without its client; --detach leaves at once"
_PRINT_ONLY = ("echo", "printf", "pwd", "date", "hostname", "clear", "true", ":", "nvidia-smi")
_LOOPS = ("for", "while", "until", "if", "case", "{")


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
    command: tuple[Word, ...] = ()
    ended = ""
    for words, end in shell.commands(_PROMPT.sub("", text)):
        if ended == "|" and words[0].text in ("tee", "cat"):
            shell.dropped.append(f"| {words[0].text}: {_LOG}")
        elif command and words[0].text == "wait":
            pass
        elif command:
            raise _several(command, words, ended)
        elif not shell.prepare(words):
            command = words
        ended = end.replace("|&", "|")
    if not command:
        raise CommandRefused(
            "the line has no command", "paste it from torchrun, accelerate or python on, to its end"
        )
    return ShellLine(
        command,
        shell.directory,
        tuple(shell.exports.items()),
        tuple(shell.unset),
        shell.environment,
        tuple(dict.fromkeys(shell.dropped)),
    )


class _Shell:
    """What commands in front of the launch leave behind."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.values: dict[str, str | tuple[Word, ...]] = dict(environ)
        self.directory = ""
        self.exports: dict[str, Word] = {}
        self.unset: list[str] = []
        self.environment: Environment | None = None
        self.dropped: list[str] = []

    def commands(self, text: str) -> Iterator[tuple[tuple[Word, ...], str]]:
        """Yield the words of every command and the operator behind it, without redirections and arrays."""
        words: list[Word] = []
        tokens = split_text(text, self.values)
        for token in tokens:
            if isinstance(token, Word):
                words.append(token)
            elif token.text == "(" and len(words) == 1 and re.fullmatch(r"[A-Za-z_]\w*=", words[0].text):
                self.values[words.pop().text[:-1]] = _array(tokens)
            elif token.text in "()":
                raise CommandRefused(
                    "the line has a subshell, in parentheses", "paste the command inside of it"
                )
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

    def prepare(self, words: tuple[Word, ...]) -> bool:
        """Take a command that only prepares the launch; return False for any other."""
        name, rest = words[0].text, words[1:]
        if name == "cd" and len(rest) <= 1:
            self.directory = posixpath.join(self.directory, rest[0].text if rest else "~")
        elif name in ("export", "declare", "local") or all(_ASSIGNMENT.match(word.text) for word in words):
            self._assign(
                rest if name in ("export", "declare", "local") else words, is_exported=name == "export"
            )
        elif name == "unset":
            self.unset += [word.text for word in rest if not word.text.startswith("-")]
        elif name == "set":
            self.dropped.append("set: of the shell that it was written for")
        elif name in _PRINT_ONLY:
            self.dropped.append(f"{name}: starts nothing")
        elif name in ("source", ".") and rest and rest[0].text.endswith("bin/activate"):
            self.environment = Environment(
                "venv", path=posixpath.dirname(posixpath.dirname(rest[0].text)) or "."
            )
        elif name in ("conda", "mamba", "micromamba", "pyenv") and rest and rest[0].text == "activate":
            self.environment = Environment(name, rest[1].text if len(rest) > 1 else "base")
        elif name in _LOOPS:
            raise CommandRefused(f"the line is a shell loop or condition ({name})", "paste one launch of it")
        else:
            return False
        return True

    def _assign(self, words: tuple[Word, ...], *, is_exported: bool) -> None:
        for word in words:
            name, equals, value = word.text.partition("=")
            if word.text.startswith("-"):
                continue
            if equals and not word.unresolved:
                self.values[name] = value
            if is_exported:
                now = self.values.get(name, "")
                self.exports[name] = Word(value if equals else str(now), word.unresolved)
            elif name in self.exports:
                self.exports[name] = Word(value, word.unresolved)


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


def _several(command: tuple[Word, ...], other: tuple[Word, ...], ended: str) -> CommandRefused:
    if ended == "|":
        return CommandRefused(
            f"the line pipes into {other[0].text}",
            "leave the pipe out, or pipe the output of gpulaunch run itself",
        )
    return CommandRefused(
        f"the line has several commands: {command[0].text} and {other[0].text}",
        "paste one of them, or write them into a script: gpulaunch run ... -- bash SCRIPT",
    )
