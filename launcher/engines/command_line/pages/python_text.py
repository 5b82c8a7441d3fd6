"""A text that is Python, not a command: a job of SageMaker, Azure ML or Ray in its own language. Pure."""

import ast
import shlex
from collections.abc import Iterator

from launcher.engines.command_line.launch_patterns import LAUNCH_INSIDE, LAUNCH_LINE
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.checks.message_text import shorten

_IMPORT = re.compile(
    r"^(?:from[ \t]+[A-Za-z_][\w.]*[ \t]+import[ \t]+\S"
    r"|import[ \t]+[A-Za-z_][\w.]*[ \t]*(?:(?:as[ \t]+|,[ \t]*)\w+[ \t]*)*(?:#.*)?$)",
    re.MULTILINE,
)
_TYPED = re.compile(r"^[ \t]*[!%$]", re.MULTILINE)
_ENTRY = re.compile(
    r"\b(?:entry_point|entry_script|script)[ \t]*=[ \t]*[\"'](?P<script>[\w./-]+\.(?P<kind>py|sh))[\"']"
)
_ENTERED = re.compile(r"^(?:>>>|\.\.\.)[ \t]?", re.MULTILINE)
_COMMAND = re.compile(
    r"(?:\b(?:command|entrypoint)[ \t]*=|[\"'](?:command|entrypoint)[\"'][ \t]*:)"
    r"[ \t]*f?[\"'](?P<command>[^\"'\n]{1,200})[\"']"
)
_NOTED = re.compile(
    r"^#[^\n]{0,60}?\b((?:torchrun|accelerate launch|deepspeed|python[\d.]* -m torch\.distributed\.\w+)"
    r"(?=[ \t][^\n]*(?:\.py\b|[ \t]--?\w|\\$))[ \t]+\S[^\n]*(?:(?<=\\)\n#[^\n]*)*)",
    re.MULTILINE,
)
"""A launch in a comment at the start of a line."""

_LONGEST, _SHOWN, _MOST_WORDS = 100_000, 200, 300
_OPERATOR = re.compile(r"[&|;<>]")


def find_noted_launch(text: str) -> str:
    """Return the launch that a comment of a text has, "" where none does."""
    found = _NOTED.search(text)
    if found is None:
        return ""
    launch = found[1].partition("`")[0] if text[found.start(1) - 1] == "`" else found[1]
    return " ".join(launch.replace("\\\n#", " ").split())


def refuse_python(text: str, *, is_read: bool = True) -> None:
    """Raise CommandRefused for a program in Python, with the command that its job starts where it says one.

    A cell of a notebook with commands in it is none, nor a text with a launch that Python does not
    read. Of a text that no shell reads (`is_read` false), a part without imports is one.
    """
    if is_read and (not _IMPORT.search(text) or _TYPED.search(text)):
        return
    program = _program(text if is_read else _ENTERED.sub("", text))
    if program is None and (LAUNCH_INSIDE.search(text) or not is_read):
        return
    if not is_read and not any(
        isinstance(node, ast.Call) for node in ast.walk(program or ast.Module([], []))
    ):
        return
    entry, command = _ENTRY.search(text), _COMMAND.search(text)
    started = next(_started(program), "") if program is not None else ""
    started = started or find_noted_launch(text)[:_SHOWN]
    fix = "write the command that starts it: gpulaunch run --hosts A,B -- torchrun SCRIPT.py"
    if entry is not None:
        starter = {"py": "torchrun", "sh": "bash"}[entry["kind"]]
        fix = (
            f"write what its job starts: gpulaunch run --hosts A,B -- {starter} "
            f"{shlex.quote(entry['script'])}, with its hyperparameters as options"
        )
    elif command is not None or started:
        shown = command["command"].strip() if command is not None else started
        shown = shlex.quote(shown) if _OPERATOR.search(shown) else shown
        fix = f"write what its job starts: gpulaunch run --hosts A,B -- {shown}"
    raise CommandRefused("the text is a program in Python, and not a command", fix)


def _program(text: str) -> ast.Module | None:
    """Return a text as Python reads it; None for any other."""
    if len(text) > _LONGEST:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _started(program: ast.Module) -> Iterator[str]:
    """Yield the launches at the starts of lines of a program's texts and lists, as deep ones in its order."""
    for node in ast.walk(program):
        if isinstance(node, ast.List) and 1 < len(node.elts) <= _MOST_WORDS:
            text = " ".join(map(_word, node.elts))
        else:
            text = _word(node) if isinstance(node, ast.Constant | ast.JoinedStr) else ""
        text = text.replace("\\\n", " ")
        found = LAUNCH_LINE.search(text)
        line = (
            " ".join(text[found.start() :].lstrip().partition("\n")[0].split()) if found is not None else ""
        )
        if " " in line:
            yield shorten(line, _SHOWN)


def _word(node: ast.expr) -> str:
    """Return what an expression of a program is as a word; names as they are written."""
    if isinstance(node, ast.Constant):
        return str(node.value) if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _word(part.value) if isinstance(part, ast.FormattedValue) else _word(part) for part in node.values
        )
    try:
        shown = ast.unparse(node)
    except RecursionError:
        return "..."
    return "python" if shown == "sys.executable" else f"{{{shown}}}"
