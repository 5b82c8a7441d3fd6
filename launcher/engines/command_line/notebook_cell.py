"""The shell commands in a cell of a notebook, whose other lines are Python. Pure."""

import ast
import re
import shlex
from collections.abc import Iterator

_SHELL = re.compile(r"[ \t]*!+[ \t]*(?=[\w.$\"'/~])")
_MAGIC = re.compile(r"[ \t]*%")
_CONTINUED = re.compile(r"\\[ \t]*$")
_VARIABLE = re.compile(
    r"os\.environ\[(?P<quote>[\"'])(?P<name>[A-Za-z_]\w*)(?P=quote)\][ \t]*=[ \t]*(?P<value>.+)"
)
_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*(?P<value>.+)")


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
