"""A command line as people type it today, as one record. Pure.

`gpulaunch run -- WORDS` and `gpulaunch init -- WORDS` call `parse_command`; a whole line in one text, as
copied from a page, goes through `parse_line`. The options of each launcher are tables (`tables/`).
"""

from collections.abc import Mapping, Sequence

from launcher.engines.command_line.launchers import read_launcher
from launcher.engines.command_line.line import CommandLine
from launcher.engines.command_line.prefixes import read_prefix
from launcher.engines.command_line.records import ParsedCommand
from launcher.engines.command_line.shell_line import ShellLine, split_line
from launcher.engines.command_line.words import plain
from launcher.engines.command_line.wrappers import strip_wrapper
from launcher.errors import CommandRefused


def parse_command(words: Sequence[str]) -> ParsedCommand:
    """Return what a command asks for; `words` are as a shell has split them.

    Raises CommandRefused, with what is wrong and what to write instead, for options that no launcher has or
    that gpulaunch cannot honour, and for lines that contradict themselves.
    """
    return _parse(ShellLine(plain(words)))


def parse_line(text: str, environ: Mapping[str, str] | None = None) -> ParsedCommand:
    """Return what one line of text asks for; `environ` fills in its variables.

    Raises CommandRefused as `parse_command` does, and for a text with several commands.
    """
    return _parse(split_line(text, environ or {}))


def _parse(shell: ShellLine) -> ParsedCommand:
    line = CommandLine(shell.words)
    for name, value in shell.exports:
        line.assign(-1, name, value)
    line.unset += shell.unset
    line.enter(shell.environment, shell.directory)
    line.dropped += shell.dropped
    at = 0
    while at < len(line.words):
        around = strip_wrapper(line.words, at)
        if around is not None:
            at = around.start
            for position, name, value in around.assignments:
                line.assign(position, name, value)
            line.unset += around.unset
            line.enter(around.environment, around.directory)
            line.dropped += around.dropped
            continue
        after = read_prefix(line, at)
        if after is None:
            line.check_elastic()
            return read_launcher(line, at)
        at = after
    raise CommandRefused(
        "the line has no program to start" if line.words else "the line is empty",
        "write the command after --: gpulaunch run --hosts a,b -- torchrun train.py",
    )
