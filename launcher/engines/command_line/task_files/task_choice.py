"""The launches among the tasks of a project's file: Makefile, justfile, pyproject.toml ... Pure.

A whole file has tasks that lint, build and install beside the one that trains. Those that start nothing are
left out; of several that do, `--launch` chooses as it does for any text.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from launcher.engines.command_line.launch_patterns import LAUNCH_INSIDE
from launcher.engines.command_line.parsed_command import Task
from launcher.engines.command_line.shell.bracket_tests import Files
from launcher.engines.command_line.side_commands import NEEDED_TASK, SHELL_SCRIPT
from launcher.engines.command_line.task_files.justfile import parse_justfile
from launcher.engines.command_line.task_files.makefile import parse_makefile, select_task_names
from launcher.engines.command_line.task_files.task_tables import parse_json_tasks, parse_toml_tasks
from launcher.errors import CommandRefused
from preflight import regex as re

_Reader: TypeAlias = Callable[[str], Sequence[Task] | None]
_READERS: tuple[_Reader, ...] = (parse_json_tasks, parse_toml_tasks)
_TOOLS = re.compile(
    r"\bpython[\d.]*[ \t]+(?:-m[ \t]+(?:pytest|pip|build|twine|venv|unittest|black|ruff|mypy|flake8|isort"
    r"|pylint|sphinx\S*|http\.server|ipykernel\S*|jupyter\S*|coverage|pre_commit|compileall|ensurepip)\b"
    r"|setup\.py\b|-c\b)|\bpre-commit\b"
)
_RUN_SCRIPT = re.compile(
    r"\b(?:uv|poetry|pdm|pixi|hatch|rye|pipenv)[ \t]+run[ \t]+(?:-\S+[ \t]+)*(?:train[\w-]*[ \t]+)?"
    r"[\w./-]+\.py\b"
)
"""A script that a tool starts with Python."""

_PYTHON = re.compile(r"\bpython[\d.]*\b")
_LONGEST = 100_000
_LISTED = 8


def extract_task_launches(
    text: str, environ: Mapping[str, str] | None = None, files: Files | None = None
) -> str | None:
    """Return the tasks of a file that launch something, as commands of a shell; None for any other text.

    Raises CommandRefused for a file of tasks none of which launches something.
    """
    if len(text) > _LONGEST or ("\n" not in text.strip() and not text.lstrip().startswith("{")):
        return None
    make = partial(parse_makefile, environ=environ, files=files)
    readers: tuple[_Reader, ...] = (*_READERS, make, parse_justfile)
    found = (read(text) for read in readers)
    tasks = next((one for one in found if one is not None), None)
    if not tasks:
        return None
    launching = [
        task
        for task in tasks
        if LAUNCH_INSIDE.search(_TOOLS.sub("", task.text)) or _RUN_SCRIPT.search(task.text)
    ]
    launching = launching or [task for task in tasks if len(tasks) == 1 and SHELL_SCRIPT.search(task.text)]
    if not launching:
        return _without_launch(tasks)
    needed = {name for task in launching for name in task.needs}
    kept = [  # a task that another one needs first prepares it: `python prepare.py`
        task
        for task in launching
        if task.name not in needed or LAUNCH_INSIDE.search(_PYTHON.sub("", task.text))
    ]
    kept = kept or launching
    texts = [f"{_said(task, tasks)}{task.head}\n{task.text}".strip("\n") for task in kept]
    return texts[0] if len(texts) == 1 else "\n".join(f"(\n{text}\n)" for text in texts)


def _without_launch(tasks: Sequence[Task]) -> str | None:
    """Return None for a text that may be no file of tasks. Raises CommandRefused for one that surely is."""
    if not all(task.is_certain for task in tasks):
        return None
    names = ", ".join(dict.fromkeys(task.name for task in tasks[:_LISTED]))
    raise CommandRefused(
        f"the file has no task that starts a launcher or python; its tasks: {names}",
        "paste the command that trains",
    )


def _said(task: Task, tasks: Sequence[Task]) -> str:
    """Return a line for each task that one needs first; one without a rule in the text may have commands."""
    known = {one.name: one for one in tasks}
    is_sure = len(tasks) > 1 or task.is_certain
    names = list(dict.fromkeys(task.needs))
    absent = [name for name in select_task_names(names, is_sure=is_sure) if name not in known]
    for name in names:
        names += [more for more in (known[name].needs if name in known else ()) if more not in names]
    first = [
        name
        for name in names
        if name in absent or (name in known and name != task.name and known[name].text.strip())
    ]
    return "".join(f"{NEEDED_TASK} {shlex.quote(name)}\n" for name in first)
