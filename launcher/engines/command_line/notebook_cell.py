"""The shell commands in the cells of a notebook, whose other lines are Python. Pure."""

import ast
import json
import re
import shlex
from collections.abc import Iterator

from launcher.errors import CommandRefused

_SHELL = re.compile(r"[ \t]*!+[ \t]*(?=[\w.$\"'/~])")
_MAGIC = re.compile(r"[ \t]*%")
_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|shell|script)\b")
_STARTS = re.compile(r"^[ \t]*!", re.MULTILINE)
_RUNS = re.compile(
    r"^[ \t]*(?:!|%%(?:bash|sh|shell|script)\b|%(?:cd|env|set_env)\b|os\.environ\[)", re.MULTILINE
)
"""A cell that starts something, or sets what a command sees."""

_CONTINUED = re.compile(r"\\[ \t]*$")
_VARIABLE = re.compile(
    r"os\.environ\[(?P<quote>[\"'])(?P<name>[A-Za-z_]\w*)(?P=quote)\][ \t]*=[ \t]*(?P<value>.+)"
)
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*(?P<value>.+)")


def commands_of_notebook(text: str) -> str:
    """Return the cells with commands of a notebook's file (.ipynb), as one cell; any other text as it is.

    Raises CommandRefused for a notebook without one.
    """
    if not text.lstrip().startswith("{") or '"cells"' not in text:
        return text
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
    kept = [_typed(code) for code in codes if _RUNS.search(code)]
    if not any(_STARTS.search(code) for code in kept):
        raise CommandRefused(
            "the notebook has no cell that starts a command (!torchrun, %%bash)",
            "paste the command that trains, or write its cells into a script: jupyter nbconvert --to script",
        )
    return "\n".join(kept)


def _typed(code: str) -> str:
    """Return a cell, of which a cell of a shell has `!` in front of each command."""
    if not _SHELL_CELL.match(code):
        return code
    lines, above = code.split("\n")[1:], ""
    typed: list[str] = []
    for line in lines:
        typed.append(line if _CONTINUED.search(above) or not line.strip() else f"!{line}")
        above = line
    return "\n".join(typed)


def shell_of_cell(text: str) -> str:
    """Return the commands behind `!` of a cell, and as assignments the Python variables that they can name.

    A text without such a line is returned as it is.
    """
    lines = text.split("\n")
    if not any(_SHELL.match(line) for line in lines) or _starts_otherwise(lines):
        return text
    return "\n".join(_shell_lines(lines))


def _starts_otherwise(lines: list[str]) -> bool:
    """Whether a command of a shell is beside those behind `!`: the text is a list, not a cell."""
    above = ""
    for line in lines:
        is_first = not _CONTINUED.search(above)
        above = line
        if not is_first or _SHELL.match(line) or _MAGIC.match(line) or line.lstrip().startswith("#"):
            continue
        if re.match(r"[ \t]*(?:>>>[ \t]|\$[ \t]|(?:export|cd)[ \t])", line):
            return True
    return False


def _shell_lines(lines: list[str]) -> Iterator[str]:
    names: list[str] = []
    above = ""
    is_shell = False
    for line in lines:
        if not _CONTINUED.search(above):
            is_shell = _SHELL.match(line) is not None or _MAGIC.match(line) is not None
            if not is_shell:
                name, assignment = _assignment(line)
                names += [name] if name else []
                if assignment:
                    yield assignment
        above = line
        if is_shell:
            yield _filled(line, names)


def _filled(line: str, names: list[str]) -> str:
    """Return a line in which `{NAME}` of a Python variable is `${NAME}`."""
    for name in names:
        line = re.sub(rf"(?<!\$)\{{{name}\}}", f"${{{name}}}", line)
    return line


def _assignment(line: str) -> tuple[str, str]:
    """Return the name and the assignment that a line of Python is to a shell, "" for any other line."""
    variable = _VARIABLE.match(line.strip())
    found = variable or _NAME.match(line.strip())
    if found is None:
        return "", ""
    try:
        value = ast.literal_eval(found["value"].strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return "", ""
    if not isinstance(value, str | int | float):
        return "", ""
    return found["name"], f"{'export ' if variable else ''}{found['name']}={shlex.quote(str(value))}"
