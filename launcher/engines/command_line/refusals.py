"""Why a text cannot be read as one launch, and what to paste in its place."""

import shlex
from collections.abc import Sequence
from itertools import pairwise

from launcher.engines.command_line.launch_patterns import LAUNCH, LAUNCH_LINE
from launcher.engines.command_line.pages.python_text import find_noted_launch
from launcher.engines.command_line.shell.missing_values import explain_no_values
from launcher.engines.command_line.shell.words import Word
from launcher.errors import CommandRefused
from preflight import regex as re

_WITHOUT_FILE = (
    "write its variables in front of the command (NAME=VALUE torchrun ...), or launch the whole"
    " script: gpulaunch run ... -- bash SCRIPT"
)
_PROGRAM = re.compile(r"torchrun|deepspeed|python[\d.]*")
_ENDS = "the text ends with"
_NO_NAME = "and a shell expects the name of a program"
_LAUNCH = re.compile(rf"(?<![\w./-]){LAUNCH}(?=[ \t])[^\n\"'`|;\\]*(?:\.py|[ \t]-m[ \t])[^\n\"'`|;\\<>]*")
LOOPS = ("for", "while", "until", "if", "case", "select", "{", "[", "[[", "test")
_ARGUMENT = re.compile(r"^[^'#\n]*(\$(?:[1-9]|\{[1-9]\}))", re.MULTILINE)  # `$1` in quotes is awk's
_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)", re.ASCII)
_WITHOUT_PROGRAM = re.compile(
    r"has no (?:script|program) to start$|names no script|^the line has no command$"
)
_FOR_ARGUMENTS = re.compile(r"(?P<quote>\"?)\$(?:[@*]|\{[@*][^}\n]*\})(?P=quote)")


def explain_unseen(words: tuple[Word, ...]) -> CommandRefused:
    """Return the error for a file of settings that may not be read."""
    shown = " ".join(word.text for word in words[:2])
    return CommandRefused(f"{shown} sets what gpulaunch cannot see", _WITHOUT_FILE)


def explain_absent(words: tuple[Word, ...], folder: str) -> CommandRefused:
    """Return the error for a file of settings that is not where the text has it."""
    name = words[1].text
    return CommandRefused(
        f"{words[0].text} {name}: {folder or 'this directory'} has no file {name} with settings",
        f"start gpulaunch in the directory that has it, or {_WITHOUT_FILE}",
    )


def explain_readonly(name: str) -> CommandRefused:
    """Return the error for a second value of a variable of `readonly`, which stops a shell or is ignored."""
    return CommandRefused(
        f"{name} is readonly, and the text sets it again", "take readonly or one of the values out"
    )


def explain_early_end(words: tuple[Word, ...]) -> CommandRefused:
    """Return the error for a text that ends in front of its launch."""
    shown = " ".join(word.text for word in words)
    return CommandRefused(
        f"{_ENDS} {shown} before it launches something",
        "give the variables that it asks for a value, or paste the launch alone",
    )


def is_early_end(message: str) -> bool:
    """Whether an error is one that `explain_early_end` returns."""
    return message.startswith(_ENDS)


def explain_empty() -> CommandRefused:
    """Return the error for a text that starts nothing."""
    return CommandRefused(
        "the line has no command", "paste it from torchrun, accelerate or python on, to its end"
    )


def explain_no_program(shown: str) -> CommandRefused:
    """Return the error for a text whose first word names nothing that starts."""
    return CommandRefused(
        f"a command of the text starts with {shown[:40]}, {_NO_NAME}",
        "paste it from torchrun, accelerate or python on, to its end",
    )


def refuse_without_arguments(text: str) -> None:
    """Raise CommandRefused for a text whose launch only an argument of its own would start."""
    if (name := _ARGUMENT.search(text)) and LAUNCH_LINE.search(text):
        raise CommandRefused(
            f"the text starts its launch by its arguments, as {name[1]}, and has none",
            "launch the script with them, gpulaunch run ... -- bash SCRIPT ARGUMENTS, or paste one launch",
        )


def explain_written(name: str) -> CommandRefused:
    """Return the error for a text that only writes a file with a launch."""
    return CommandRefused(
        f"the text writes {name}, which has the launch, and starts nothing",
        f'write it as the text does, and launch what it has: gpulaunch run --hosts A,B -- "$(cat {name})"',
    )


def cut_command(before: str) -> CommandRefused:
    """Return the error for a command that a comment or a line without its sign ends too early."""
    return CommandRefused(
        f"the command ends before {before}: the line above is a comment, or lacks its \\",
        "take the comment out, or write \\ at the end of the line above",
    )


def refuse_continued(text: str, args: Sequence[str]) -> None:
    """Raise CommandRefused for a command that a sign at its end joins to the launch in the line below."""
    for program, script in pairwise(args):
        start = rf"\\[ \t]*\n[ \t]*{re.escape(program)}[ \t]+{re.escape(script)}(?!\S)"
        if _PROGRAM.fullmatch(program) and script.endswith(".py") and re.search(start, text):
            raise CommandRefused(
                f"the command continues with {program} {script}: the line above ends with \\",
                "take the \\ at the end of that line out, or paste one of the two commands",
            )


def add_hints(error: CommandRefused, text: str) -> CommandRefused:
    """Return an error with what the text itself says to it: a value in a comment, arguments that it lacks."""
    for name in _NAME.findall(error.message):
        if re.search(rf"^[ \t]*#[ \t]*(?:export[ \t]+)?{name}=", text, re.MULTILINE):
            fix = f"take the # in front of {name}= out, or write the value"
            return CommandRefused(error.message, fix)
    if error.message.endswith(_NO_NAME) and (inside := _LAUNCH.search(text)):
        launch = " ".join(inside[0].rstrip(" \t,)]}").split())
        return CommandRefused(error.message, f"launch what is in it: gpulaunch run --hosts A,B -- {launch}")
    if error.message == explain_settings_file().message and (launch := find_noted_launch(text)):
        fix = f"paste the launch that a comment of it has: gpulaunch run --hosts A,B -- {launch}"
        return CommandRefused(error.message, fix)
    found = _FOR_ARGUMENTS.search(text) if _WITHOUT_PROGRAM.search(error.message) else None
    if found is None:
        return error
    return CommandRefused(
        f"the text launches what its own arguments name, {found[0]}, and it has none",
        f"write the script and its arguments in place of {found[0]}",
    )


def explain_template_choice(line: str) -> CommandRefused:
    """Return the error for a line of a command or of its variables that only a template decides."""
    return CommandRefused(
        f"the text is a template, which decides whether it has {line.strip()[:40]}",
        "paste what the template makes",
    )


def explain_unstarted(what: str, launch: str) -> CommandRefused:
    """Return the error for a launch that is only a text: `echo "torchrun a.py" | bash`, `cmd="torchrun"`."""
    return CommandRefused(
        f"the text {what}", f"launch it: gpulaunch run --hosts A,B -- {shlex.quote(launch)}"
    )


def explain_settings_file() -> CommandRefused:
    """Return the error for a file of settings, in which nothing starts."""
    return CommandRefused(
        "the text is a file of settings (NAME: VALUE), and not a command",
        "paste the command that reads it: gpulaunch run --hosts A,B -- torchrun SCRIPT.py --config FILE",
    )


def explain_declared_launch(name: str, launcher: str) -> CommandRefused:
    """Return the error for `export A=1 torchrun ...`, which starts nothing."""
    return CommandRefused(
        f"{name} has {launcher} among its words, and starts nothing: the launch lacks a line of its own",
        f"take \\ at the end of the line with {name} out, or write && in front of {launcher}",
    )


def explain_undecided(kind: str) -> CommandRefused:
    """Return the error for a launch inside of a loop, or of a condition that the text does not decide."""
    return CommandRefused(
        f"the line is a shell loop or condition ({kind})",
        "paste one launch of it, or launch the whole script: gpulaunch run ... -- bash SCRIPT",
    )


def explain_condition(kind: str) -> CommandRefused:
    """Return the error for a launch that is itself the condition of a block."""
    if kind not in ("while", "until"):
        return explain_undecided(kind)
    return CommandRefused(
        f"the text starts its launch again until it ends as it should ({kind})",
        "paste the launch alone, and write --restarts N: gpulaunch starts a failed run again",
    )


def explain_parenthesis(operator: str, words: list[Word]) -> CommandRefused:
    """Return the error for a parenthesis that starts and ends no group."""
    if operator == "(" and words and words[0].text in LOOPS:
        return explain_undecided(words[0].text)
    if not all(word.is_known for word in words):
        return explain_no_values(words, "the line")
    if operator == "(" and len(words) == 1:
        return CommandRefused(
            f"the text has a shell function, {words[0].text}", "paste the command inside of it"
        )
    if operator == "(" and words:
        if re.match(r"[^\x00-\x7f]|.*:\Z", words[0].text):  # a box that is drawn, a key of YAML
            raise explain_no_program(words[0].text)
        shown = f"{' '.join(word.text for word in words)[:40]} ... ("
        return CommandRefused(
            f"a shell takes no parenthesis behind a command: {shown}", "leave it out, or put it in quotes"
        )
    return CommandRefused("the line has a subshell, in parentheses", "paste the command inside of it")


def explain_endless_function(name: str) -> CommandRefused:
    """Return the error for a function whose end the text does not have."""
    return CommandRefused(
        f"the text has a shell function, {name}, without its end", "paste all of it, or the command alone"
    )
