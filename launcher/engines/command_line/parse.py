"""A command line as people type it today, as one record. Pure.

`gpulaunch run -- WORDS` and `gpulaunch init -- WORDS` call `parse_command`; a whole line in one text, as
copied from a page, goes through `parse_line`. The options of each launcher are tables (`tables/`).
"""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from launcher.engines.command_line.candidates import ShellLine
from launcher.engines.command_line.launch_text import split_line
from launcher.engines.command_line.launchers import read_launcher
from launcher.engines.command_line.line import CommandLine
from launcher.engines.command_line.mpirun_srun import read_prefix
from launcher.engines.command_line.pages.other_shells import refuse_other_text
from launcher.engines.command_line.parsed_command import MissingValue, ParsedCommand
from launcher.engines.command_line.refusals import add_hints, explain_unseen, is_early_end, refuse_continued
from launcher.engines.command_line.shell.bracket_tests import Files
from launcher.engines.command_line.shell.missing_values import explain_no_values
from launcher.engines.command_line.shell.variables import Value
from launcher.engines.command_line.shell.words import Word, make_words
from launcher.engines.command_line.side_commands import TEXT_OPTION, has_launcher, is_python
from launcher.engines.command_line.tables.mpirun_srun import PREFIXES
from launcher.engines.command_line.tables.shells import starts_posix_shell
from launcher.engines.command_line.wrappers import is_split_text, strip_wrapper, strips_program
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.frozen import dataclass

_LAUNCHER_INSIDE = re.compile(
    r"(?:^|[\s;&|(/])(?:torchrun|accelerate\s+launch|deepspeed)\s|torch\.distributed\.(?:run|launch)\b"
)
_OF_MACHINE = re.compile(
    r"\$\{?([A-Za-z_]\w*)|(?:\$\(|`|&&[ ]?|;[ ]?)(?P<here>pwd)\b|(?<![\w/~])~(?=/)", re.ASCII
)
_NAMES_IMAGE = re.compile(r"^[ \t]*(?:- )?image:[ \t]*\S", re.MULTILINE)
"""A manifest, whose paths of programs are those of its image."""
_ALONE = "paste the command alone"
_MOST_WRAPPERS = 500  # of assignments in front of a command too

_DEEPEST = 8  # texts within texts (`eval "bash -c '...'"`); no person writes more


@dataclass(frozen=True, slots=True)
class _Inside:
    """What a text within the text sees."""

    environ: Mapping[str, Value]
    files: Files | None = None
    number: int | None = None  # of the command that is chosen
    depth: int = 0
    is_typed: bool = False  # word by word


def parse_command(
    words: Sequence[str], environ: Mapping[str, str] | None = None, number: int | None = None
) -> ParsedCommand:
    """Return what a command asks for; `words` are as a shell has split them.

    `environ` fills in variables of a text inside (`bash -c TEXT`), and `number` chooses one of the commands
    of that text, from 1. Raises CommandRefused, with what is wrong and what to write instead, for options
    that no launcher has or that gpulaunch cannot honour, and for lines that contradict themselves.
    """
    return _parse(ShellLine(make_words(words)), _Inside(environ or {}, number=number, is_typed=True))


def parse_line(
    text: str, environ: Mapping[str, str] | None = None, files: Files | None = None, number: int | None = None
) -> ParsedCommand:
    """Return what one line of text asks for; `environ` fills in its variables.

    `files` gives the text of a file of settings that the text reads (`source setup.sh`). What the launch
    needs and the text does not say is in `unknown`. Raises CommandRefused as `parse_command` does, and for a
    text with several commands of which `number`, from 1, chooses none.
    """
    inside = _Inside(environ or {}, files, number)
    unknown: tuple[MissingValue, ...] = ()
    try:
        shell = split_line(text, inside.environ, files, number=number)
        unknown = shell.unknown
        parsed = _parse(shell, inside)
    except CommandRefused as error:
        early = next((one for one in unknown if is_early_end(one.message)), None)
        if early is not None:
            raise CommandRefused(early.message, early.fix) from error
        refuse_other_text(text)
        raise add_hints(error, text) from error
    if parsed.launcher == "opaque":
        refuse_other_text(text)
    if parsed.launcher != "opaque" and parsed.program_kind != "executable":
        refuse_continued(text, parsed.args)
    return replace(
        parsed,
        python=posixpath.basename(parsed.python) if _NAMES_IMAGE.search(text) else parsed.python,
        unknown=tuple(_of_text(one, text) for one in parsed.unknown),
        dropped=(*parsed.dropped, *_of_this_machine(text, environ or {}, parsed)),
    )


def _of_this_machine(text: str, environ: Mapping[str, str], parsed: ParsedCommand) -> Iterator[str]:
    """Yield what is said of variables of this machine whose values the launch has: `$HOME/data`, `~/data`."""
    words = "\n".join((parsed.program, *parsed.args, *parsed.env.values(), parsed.directory))
    for name in dict.fromkeys(
        found[1] or ("PWD" if found["here"] else "HOME") for found in _OF_MACHINE.finditer(text)
    ):
        value = environ.get(name, "")
        below = parsed.directory if name == "PWD" and not posixpath.isabs(parsed.directory) else ""
        for one in (value, posixpath.normpath(posixpath.join(value, below))):
            if len(one) > 1 and re.search(rf"(?:(?=\W)|(?<![^\W_])){re.escape(one)}(?![^\W_])", words):
                yield f"${name}: {one}, which is its value on this machine, for every host"
                break


def _of_text(missing: MissingValue, text: str) -> MissingValue:
    error = add_hints(CommandRefused(missing.message, missing.fix), text)
    return replace(missing, fix=error.fix)


def names_program(name: str) -> bool:
    """Return whether a word is a launcher, or a program that is known in front of one."""
    word = Word(name)
    return (
        is_python(word)
        or has_launcher((word,))
        or strips_program(name)
        or name in PREFIXES
        or starts_posix_shell(name)
    )


def _parse(shell: ShellLine, inside: _Inside) -> ParsedCommand:
    line = CommandLine(shell.words, is_typed=inside.is_typed)
    _prepare(line, shell)
    at, commands, wrappers = 0, shell.commands, 0
    given: dict[str, Value] = {}  # to the command by `env`, and in front of it
    while at < len(line.words):
        around = strip_wrapper(line.words, at)
        if around is not None:
            at, wrappers = around.start, wrappers + 1
            if wrappers > _MOST_WRAPPERS:
                raise CommandRefused(
                    f"the line has more than {_MOST_WRAPPERS} commands around its launch", _ALONE
                )
            line.words = line.words[: around.end]
            line.remove(around.unset)
            for position, name, value in around.assignments:
                line.assign(position, name, value)
                given[name] = value.value
            if around.settings is not None:
                line.lack(explain_unseen((Word("--env-file"), around.settings)))
            line.enter(around.environment, around.directory)
            line.dropped += around.dropped
            continue
        inside = replace(inside, environ={**(shell.exported or inside.environ), **given})
        inner = _inner_line(line.words, at, shell, inside)
        if inner is not None:
            line.dropped.append(f"{line.words[at].text}: its text is the command")
            line.words = (*line.words[:at], *inner.words)
            _prepare(line, inner)
            shell = inner
            inside = replace(inside, depth=inside.depth + 1)
            commands = max(commands, inner.commands)
            continue
        if _is_open_prefix(line.words[at : at + 2]):
            line.lack(explain_no_values(line.words[at : at + 1], "the command"))
            at += 1
            continue
        after = read_prefix(line, at)
        if after is None:
            line.check_elastic()
            if (number := inside.number or 0) > commands:
                raise CommandRefused(
                    f"the text has one command, and no launch {number}", "leave --launch out"
                )
            line.settle()
            return read_launcher(line, at)
        at = after
    raise CommandRefused(
        "the line has no program to start" if line.words else "the line is empty",
        "write the command after --: gpulaunch run --hosts a,b -- torchrun train.py",
    )


def _is_open_prefix(words: Sequence[Word]) -> bool:
    """Whether a variable without a value is in front of a launcher: `mpirun -np 8 $BIND python a.py`."""
    return len(words) > 1 and words[0].is_open and (is_python(words[1]) or has_launcher(words[1:]))


def _prepare(line: CommandLine, shell: ShellLine) -> None:
    """Take what prepares the command of a text."""
    for name, value in shell.exports:
        line.assign(-1, name, value)
    line.unset += shell.unset
    line.enter(None, shell.directory)
    line.environment = shell.environment or line.environment
    line.dropped += shell.dropped
    line.unknown += shell.unknown


def _inner_line(words: tuple[Word, ...], at: int, shell: ShellLine, inside: _Inside) -> ShellLine | None:
    """Return the line that `eval TEXT` or `bash -c TEXT` runs, or that is one word in quotes.

    None for a text that starts no launcher that gpulaunch knows: the shell then runs it, once on each host.
    """
    name = posixpath.basename(words[at].text)
    if at + 1 == len(words) and any(letter.isspace() for letter in words[at].text.strip()):
        if words[at].unresolved == (words[at].text.strip(),):
            raise explain_no_values(words[at : at + 1], "the command")  # $(head -n 1 commands.txt)
        name, words = "eval", (*words[: at + 1], words[at])  # "torchrun a.py", quoted as a whole
    is_split = name == "env" and is_split_text(words, at)
    if not (is_split or name == "eval" or starts_posix_shell(name)) or at + 1 == len(words):
        return None
    if inside.depth >= _DEEPEST:
        raise CommandRefused("the line has texts within texts", _ALONE)
    if is_split or name == "eval":
        text = " ".join(word.text for word in words[at + 1 + is_split :])
        _refuse_set_inside(words[at + 1 :], text)
        return split_line(text, inside.environ, inside.files, shell.functions, inside.number)
    texts = [word.text for word in takewhile(lambda word: word.text.startswith("-"), words[at + 1 :])]
    command, *given = words[at + 1 + len(texts) :] or words[at : at + 1]
    texts = texts[:-1] if texts[-1:] == ["--"] else texts
    if not any(map(TEXT_OPTION.fullmatch, texts[-1:])):
        return None
    arguments = {"@": tuple(given[1:])} if given else {}
    try:
        _refuse_set_inside((command,), command.text)
        environ = {**inside.environ, **arguments}
        inner = split_line(command.text, environ, inside.files, shell.functions, inside.number)
    except CommandRefused:
        if not command.text.strip() or _LAUNCHER_INSIDE.search(command.text):
            raise  # as a whole it would start nothing, or ranks of its own on each host
        return None
    is_bare = set(texts) == {"-c"}
    return inner if _starts_launcher(inner, inside, is_bare=is_bare) else None


def _refuse_set_inside(words: Sequence[Word], text: str) -> None:
    """Raise CommandRefused for a text that sets variables itself which the shell around it fills in.

    In `bash -c "x=3; torchrun a.py $x"` the value of `$x` is not 3.
    """
    for word in words:
        for name in re.findall(r"\$\{?([A-Za-z_]\w*)", " ".join(word.unresolved)):
            if re.search(
                rf"(?<![\w$])(?:{name}(?:\[\w+\])?\+?=(?!\S*\${{?{name}\b)|(?:for|read)\b[^;\n]*\b{name}\b)",
                text,
            ):
                raise explain_no_values((word,), "the command")


def _starts_launcher(shell: ShellLine, inside: _Inside, *, is_bare: bool) -> bool:
    """Whether a text starts a launcher, or is all that a shell alone would do: one program."""
    try:
        parsed = _parse(shell, replace(inside, number=None, depth=inside.depth + 1))
    except CommandRefused:
        return True  # said again, of the whole line
    return parsed.launcher != "opaque" or (is_bare and not (parsed.dropped or parsed.directory))
