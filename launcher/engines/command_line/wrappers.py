"""Words around a command: what enters an environment, only times or detaches, or cannot be taken off."""

import posixpath
from collections.abc import Sequence

from launcher.engines.command_line.parsed_command import Environment
from launcher.engines.command_line.remedies import explain_refused_program
from launcher.engines.command_line.shell.terminals import SENTENCE, read_terminal, skip_options
from launcher.engines.command_line.shell.words import Word
from launcher.engines.command_line.side_commands import (
    INTERPRETER,
    find_launcher,
    has_launcher,
    is_python,
    strip_prefixes,
)
from launcher.engines.command_line.tables import wrappers as tables
from launcher.engines.command_line.tables.side_programs import BEFORE
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.frozen import dataclass

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Around:
    """What is around a command, and where the command itself starts."""

    start: int
    assignments: tuple[tuple[int, str, Word], ...] = ()  # position, name, value
    unset: tuple[str, ...] = ()
    environment: Environment | None = None
    directory: str = ""
    dropped: tuple[str, ...] = ()
    end: int | None = None  # of the command, where words behind it belong to the wrapper
    settings: Word | None = None  # a file of variables


def strip_wrapper(words: Sequence[Word], start: int) -> Around | None:
    """Return what the wrapper at `start` does, None without one. Raises CommandRefused for some of them."""
    text = words[start].text
    assignment = _ASSIGNMENT.fullmatch(text)
    is_last = start + 1 == len(words)  # of a terminal: "A=1 torchrun a.py" is a text
    if assignment is not None and not (is_last and find_launcher([*map(Word, text.split()[1:])])):
        value = Word(assignment[2], words[start].unresolved)
        return Around(start + 1, ((start, assignment[1], value),))
    name = posixpath.basename(text)
    terminal = read_terminal(words, start)
    if terminal is not None and terminal.start < terminal.end:
        said = (f"{name}: {SENTENCE}",)
        return Around(terminal.start, directory=terminal.directory, dropped=said, end=terminal.end)
    behind = _after_flags(words, start + 1, ("-u", "-g")) if name == "sudo" else len(words)
    if behind < len(words) and words[behind].text in tables.CONTAINERS:
        return strip_wrapper(words, behind)
    if name in tables.REFUSED and (text == name or text.startswith("/")):  # ./watch is the user's own
        raise explain_refused_program(name, words[start + 1 :])
    if name == "env" and not is_split_text(words, start):
        return _strip_env(words, start)
    if name in tables.TRANSPARENT:
        after = _after_flags(words, start + 1, tables.VALUE_FLAGS.get(name, ()))
        after += tables.OPERANDS.get(name, 0)
        after += name == "flock" and [word.text for word in words[after : after + 1]] in (
            ["-c"],
            ["--command"],
        )
        return Around(min(after, len(words)), dropped=(tables.TRANSPARENT[name],))
    return _strip_tool(words, start, name)


def _strip_tool(words: Sequence[Word], start: int, name: str) -> Around | None:
    """Return what a tool around a command does that has subcommands: `uv run`; None for any other word."""
    following = words[start + 1].text if start + 1 < len(words) else ""
    if name == "oumi" and following == "distributed" and start + 2 < len(words):
        return Around(start + 2, dropped=("oumi distributed: it counts the nodes, and so does the plan",))
    if name == "uvx" or (name == "uv" and following == "tool"):
        raise CommandRefused(
            f"{name} runs a program from an environment made for it", "install it on the hosts"
        )
    if name in tables.RUNNERS and _runs_command(words, start, name):
        return _strip_runner(words, start, name)
    return None


def explain_empty(words: Sequence[Word]) -> str:
    """Return what is said of a program around commands that has none: `taskset -cp 0-7 $$`; "" for others."""
    name = posixpath.basename(words[0].text)
    if name not in tables.OPERANDS or name == "timeout":
        return ""
    after = _after_flags(words, 1, tables.VALUE_FLAGS.get(name, ())) + tables.OPERANDS[name]
    of_process = any(re.fullmatch(r"-[a-zA-Z]*p|--pid", word.text) for word in words[1:after])
    return tables.TRANSPARENT[name] if of_process or after >= len(words) else ""


def find_program(words: Sequence[Word]) -> str:
    """Return the name of a command's program behind what changes nothing of it: `sudo stdbuf -o0 tee LOG`."""
    rest = strip_prefixes(words)
    while rest and rest[0].text in tables.TRANSPARENT and (around := strip_wrapper(rest, 0)) is not None:
        rest = rest[around.start :]
    return rest[0].text if rest else words[0].text


def strips_program(name: str) -> bool:
    """Return whether a program is one around commands."""
    return name in (*tables.REFUSED, *tables.TRANSPARENT, *tables.RUNNERS, *tables.OTHERS)


def _runs_command(words: Sequence[Word], start: int, tool: str) -> bool:
    """Whether the word behind the options of a tool is `run`."""
    with_value = tables.VALUES.get(tables.SAME.get(tool, tool), ())
    at = _after_flags(words, start + 1, tuple(with_value))
    return at < len(words) and words[at].text == "run"


def is_split_text(words: Sequence[Word], start: int) -> bool:
    """Whether `env` splits its words itself: `env -S "A=1 torchrun a.py"`."""
    return any(word.text in ("-S", "--split-string") for word in words[start + 1 : start + 2])


def _strip_env(words: Sequence[Word], start: int) -> Around:
    """Return the options of `env`; its assignments are those of the command behind them."""
    at, unset, directory = start + 1, [], ""
    while at < len(words):
        text = words[at].text
        if text in ("-u", "--unset", "-C", "--chdir") and at + 1 < len(words):
            at += 1
            if text in ("-u", "--unset"):
                unset.append(words[at].text)
            else:
                directory = words[at].text
        elif text.startswith("--unset="):
            unset.append(text.partition("=")[2])
        elif text.startswith("-") and text != "--":
            raise CommandRefused(
                f"env {text}: gpulaunch does not start ranks in an empty environment",
                "name the variables: env -u NAME",
            )
        elif text != "--":
            break
        at += 1
    return Around(at, unset=tuple(unset), directory=directory)


def _after_flags(words: Sequence[Word], at: int, with_value: Sequence[str]) -> int:
    return skip_options([word.text for word in words], at, with_value.__contains__)


def _strip_runner(words: Sequence[Word], start: int, tool: str) -> Around:
    kind = tables.SAME.get(tool, tool)
    given: dict[str, str] = {}
    at = _read_flags(words, start + 1, kind, given)
    at = _read_flags(words, at + 1, kind, given)
    if at < len(words) and words[at].text == "--":
        at += 1
    if tool == "hatch" and at < len(words) and re.match(r"[\w.-]+:", words[at].text):
        named, _, command = words[at].text.partition(":")
        raise CommandRefused(
            f"hatch run {words[at].text} has an environment and a command in one word",
            f"write hatch -e {named} run {command}",
        )
    is_conda = kind == "conda"
    name = _first(given, "-n", "--name", *(() if is_conda else ("-e", "--environment", "--env")))
    path = _first(given, "-p", "--prefix") if is_conda else _first(given, "--project", "-P", "-C")
    return Around(
        at,
        _variables(words[start:at], start) if is_conda else (),
        environment=Environment(tool, name, path),
        directory=_first(given, "--directory", "--cwd"),
        settings=Word(given["--env-file"]) if given.get("--env-file") else None,
        dropped=(
            f"{tool} run: {INTERPRETER}",
            *(f"{name} {given[name]}: {BEFORE}" for name in tables.INSTALLS if given.get(name)),
            *_task(words, at, tool),
        ),
    )


def _variables(words: Sequence[Word], start: int) -> tuple[tuple[int, str, Word], ...]:
    """Return the assignments among options: `-e A=1`."""
    found = (
        (start + at, _ASSIGNMENT.fullmatch(word.text), word.unresolved)
        for at, word in enumerate(words)
        if at and words[at - 1].text in ("-e", "--env")
    )
    return tuple((at, pair[1], Word(pair[2], lacking)) for at, pair, lacking in found if pair is not None)


def _task(words: Sequence[Word], at: int, tool: str) -> tuple[str, ...]:
    """Return what is said of a program that may be a task in a file of the tool."""
    name = words[at].text if at < len(words) else ""
    is_program = "/" in name or is_python(words[at]) or has_launcher(words[at:]) if name else True
    if tool not in tables.TASKS or is_program or not re.fullmatch(r"[A-Za-z][\w:-]*", name):
        return ()
    return (f"{name}: started as a program; paste what it runs where it is a task of {tables.TASKS[tool]}",)


def _read_flags(words: Sequence[Word], at: int, kind: str, given: dict[str, str]) -> int:
    """Read options of a tool; return where they end."""
    flags, with_value = tables.FLAGS.get(kind, ()), tables.VALUES.get(kind, ())
    while at < len(words) and words[at].text.startswith("-"):
        name, equals, value = words[at].text.partition("=")
        if (name == "--" and not equals) or (name in ("-m", "--module") and kind == "uv"):
            break
        if kind == "uv" and name in ("--script", "-s"):
            raise CommandRefused(
                f"uv run {name} installs packages for one command",
                "install them in the environment of each host",
            )
        if name not in flags and name not in with_value:
            raise CommandRefused(f"gpulaunch does not know {name} of {kind} run", "leave it out")
        if name in with_value and not equals:
            at += 1
            value = words[at].text if at < len(words) else ""
        given[name] = " ".join((given.get(name, ""), value)).strip() if name in tables.INSTALLS else value
        at += 1
    return at


def _first(given: dict[str, str], *names: str) -> str:
    return next((given[name] for name in names if given.get(name)), "")
