"""mpirun and srun in front of a command: taken off, what they ask for taken over."""

import posixpath
from collections.abc import Sequence

from launcher.engines.command_line import values
from launcher.engines.command_line.line import VARIABLES, CommandLine
from launcher.engines.command_line.option_reader import FoundOption, read_options
from launcher.engines.command_line.options import Table
from launcher.engines.command_line.remedies import add_launch
from launcher.engines.command_line.shell.missing_values import explain_no_values, require_known
from launcher.engines.command_line.shell.words import Word, drop_itself
from launcher.engines.command_line.side_commands import has_launcher
from launcher.engines.command_line.tables.mpirun_srun import PREFIXES
from launcher.errors import CommandRefused


def read_prefix(line: CommandLine, start: int) -> int | None:
    """Read the prefix at `start`; return where its command starts, None when there is no prefix.

    Raises CommandRefused for a second prefix and for options that cannot be taken over.
    """
    table = PREFIXES.get(posixpath.basename(line.words[start].text))
    if table is None:
        return None
    if line.prefix:
        raise CommandRefused(f"{table.owner} inside of {line.prefix}", "leave one of them out")
    line.prefix = table.owner
    at = _read_options(line, start + 1, table)
    launches = has_launcher(line.words[start + 1 :])
    while launches and _is_open_option(line.words[at : at + 2]):
        line.lack(explain_no_values(line.words[at : at + 1], table.owner))
        at = _read_options(line, at + 1, table)
    if any(word.text == ":" for word in line.words[at:]):
        raise CommandRefused(
            f"{table.owner} starts several programs, with : between them", "launch one program on all hosts"
        )
    return at


def _is_open_option(words: Sequence[Word]) -> bool:
    """Whether a variable without a value may stand for options: another one follows, and none of python."""
    options = [word.text for word in words[1:] if word.text.startswith("-")]
    return bool(options) and words[0].is_open and options[0] not in ("-m", "-u")


def _read_options(line: CommandLine, start: int, table: Table) -> int:
    """Take the options of a prefix; return the first word that is none."""
    try:
        reading = read_options(line.words, start, table)
    except CommandRefused as error:
        raise add_launch(error, line.words[start:]) from error
    line.take(reading.found)
    for one in reading.found:
        if one.option.kind == "variables":
            _take_variables(line, one)
        elif one.option.kind == "directory":
            require_known(one.words[0], one.use.spelling)
            line.enter(None, one.use.value)
    return reading.program


def _take_variables(line: CommandLine, one: FoundOption) -> None:
    """Mpirun -x A=1 or -x A; -genv A 1; srun --export=ALL,A=1."""
    position = one.use.position
    if one.option.values == 2:
        line.assign(position, one.words[0].text, one.words[1])
        return
    unresolved = one.words[0].unresolved
    for name, value in values.parse_variables(one.use.value):
        given = Word(value or "", unresolved)
        is_itself = value and not given.is_known and not drop_itself(name, given).text
        if is_itself and name != "PATH" and name not in VARIABLES:
            line.forwarded.append(name)  # -x A=$A is -x A
        elif value is not None:
            line.assign(position, name, given)
        elif name == "PATH":
            line.assign(position, name, Word(""))
        elif name.endswith("*"):
            line.dropped.append(f"{one.use.text}: name the variables in env: of a run config")
        else:
            line.forwarded.append(name)
