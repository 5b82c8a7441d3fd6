"""The shell commands in the cells of a notebook, whose other lines are Python. Pure."""

import ast
import json
import shlex
from collections.abc import Iterator
from typing import Any

from launcher.engines.command_line.launch_patterns import LAUNCH
from launcher.engines.command_line.pages.blocks import mark_continued
from launcher.engines.command_line.side_commands import say_left_out
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.checks.message_text import shorten

_SHELL = re.compile(r"[ \t]*!+[ \t]*(?=[\w.$\"'/~(])")
_MAGIC = re.compile(r"[ \t]*%")
_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|shell|script)\b")
_STARTS = re.compile(r"^[ \t]*!", re.MULTILINE)
_OTHER_CELL = re.compile(r"\s*%%(?!(?:time|capture|bash|sh|shell|script)\b)")
"""A cell in another language, or one that writes a file."""

_SETS = re.compile(r"\b(?:environ|putenv|chdir|load_dotenv)\b")
FUNCTION = re.compile(r"^[ \t]*(?:function[ \t]+)?([\w-]+)[ \t]*\(\)(?=\s*[{(])", re.MULTILINE)
_NOT_READ = "Python, and not read: what it sets goes into env: of a run config"
_SHOWN = 60
_LAUNCH = re.compile(rf"[ \t]*{LAUNCH}[ \t]+[^\s=]")
_PROMPT = re.compile(r"[ \t]*(?:>>>[ \t]|\$[ \t]|(?:export|cd)[ \t])")
_VARIABLE = re.compile(
    r"os\.environ\[(?P<quote>[\"'])(?P<name>[A-Za-z_]\w*)(?P=quote)\][ \t]*=[ \t]*(?P<value>.+)"
)
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*(?P<value>.+)")


def extract_notebook(text: str) -> str:
    """Return a notebook's cells with commands; other texts as they are. Raises CommandRefused without one."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return text
    cells = tree.get("cells") if isinstance(tree, dict) else None
    if not isinstance(cells, list):
        return text
    sources = [
        one.get("source", "") for one in cells if isinstance(one, dict) and one.get("cell_type") == "code"
    ]
    codes = ["".join(map(str, source)) if isinstance(source, list) else str(source) for source in sources]
    typed = [_typed(code) for code in codes if not _OTHER_CELL.match(code)]
    kept = [code if _STARTS.search(code) else _without_launches(code) for code in typed]
    if not any(_STARTS.search(code) for code in kept):
        raise CommandRefused(
            "the notebook has no cell that starts a command (!torchrun, %%bash)",
            "paste the command that trains, or write its cells into a script: jupyter nbconvert --to script",
        )
    return "\n".join(kept)


def _without_launches(code: str) -> str:
    """Return a cell of Python without the lines that its texts have from a shell."""
    return "\n".join(line for line in code.split("\n") if not _is_of_shell(line))


def _is_of_shell(line: str) -> bool:
    return any(pattern.match(line) for pattern in (_PROMPT, _LAUNCH, FUNCTION))


def _typed(code: str) -> str:
    """Return a cell, of which one of a shell, or that starts as one, has `!` in front of each command."""
    is_shell = _SHELL_CELL.match(code) is not None
    if not (is_shell or _LAUNCH.match(code.lstrip())):
        return code
    lines = mark_continued(code.split("\n")[is_shell:])
    return "\n".join(line if goes_on or not line.strip() else f"!{line}" for line, goes_on in lines)


def extract_cell(text: str) -> str:
    """Return the commands behind `!` of a cell and the variables that they can name; other texts as is."""
    lines = text.split("\n")
    if not any(_SHELL.match(line) for line in lines) or _starts_otherwise(lines):
        return text
    return "\n".join(_shell_lines(lines))


def _starts_otherwise(lines: list[str]) -> bool:
    """Whether a command of a shell is beside those behind `!`: the text is a list, not a cell."""
    beside = (line for line, goes_on in mark_continued(lines) if not goes_on)
    return any(map(_is_of_shell, beside))


def _shell_lines(lines: list[str]) -> Iterator[str]:
    names: list[str] = []
    is_shell = False
    for line, goes_on in mark_continued(lines):
        if not goes_on:
            is_shell = _SHELL.match(line) is not None or _MAGIC.match(line) is not None
            if not is_shell:
                name, assignment = _assignment(line)
                names += [name] if name else []
                yield from (assignment,) if assignment else _said(line)
        if is_shell:
            for name in names:
                line = re.sub(rf"(?<!\$)\{{{name}\}}", f"${{{name}}}", line)  # noqa: PLW2901
            yield line


def _said(line: str) -> Iterator[str]:
    """Yield what is said of a line of Python that may set what a command sees."""
    text = line.strip()
    if _SETS.search(text) and not text.startswith(("#", "import ", "from ", "print")):
        yield say_left_out(f"{shorten(text, _SHOWN)}: {_NOT_READ}")


def _assignment(line: str) -> tuple[str, str]:
    """Return the name and the assignment that a line of Python is to a shell, "" for any other line.

    What a line below a condition or in a function sets is not known.
    """
    variable = _VARIABLE.match(line)
    found = variable or _NAME.match(line)
    value = None if found is None else _literal(found["value"])
    if found is None or not isinstance(value, str | int | float):
        return "", ""
    return found["name"], f"{'export ' if variable else ''}{found['name']}={shlex.quote(str(value))}"


def _literal(text: str) -> Any:
    """Return the value that a text of Python writes out, None where it computes one."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
