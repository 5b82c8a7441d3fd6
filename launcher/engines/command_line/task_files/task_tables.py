"""The tasks in tables of files: package.json, pyproject.toml, pixi.toml. Pure."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.engines.command_line.parsed_command import Task
from launcher.engines.command_line.side_commands import say_left_out
from launcher.engines.command_line.tables.names import as_names
from launcher.engines.command_line.unread_keys import list_unread_keys
from preflight import regex as re

_TABLES = as_names(
    "tool.pixi.tasks tool.pixi.feature.*.tasks tool.pixi.target.*.tasks tasks feature.*.tasks"
    " target.*.tasks tool.pdm.scripts tool.poe.tasks tool.rye.scripts tool.taskipy.tasks"
    " tool.hatch.envs.*.scripts envs.*.scripts scripts tool.tox.env env"
)
"""Of TOML: pixi, PDM, Poe, Rye, taskipy, Hatch, mise, tox."""

_PROJECT_VARIABLES = (
    *("env", "envfile", "env_file", "env-vars", "env-files", "activation.env", "activation.scripts"),
    "env_run_base.set_env",
    *(
        f"target.{one}.activation.{key}"
        for one in ("unix", "linux", "linux-64")
        for key in ("env", "scripts")
    ),
)
"""Beside the tasks, for all of them: of Poe, PDM, Hatch, pixi, tox, mise."""

_UNSEEN = "it sets what gpulaunch does not see: env: of a run config sets what the ranks read"
_TEXTS = ("cmd", "shell", "run", "script", "commands", "composite", "sequence")
_NEEDS = ("depends-on", "depends_on", "deps", "depends")
_OF_PROJECT = re.compile(r"^(?:\{(?:toxinidir|tox_root)\}|\$PIXI_PROJECT_ROOT|\.)(?:/|$)")
_OF_MACHINE = (
    "of the machine that the file is for: the launch starts in the directory of each host (workdir:)"
)
_HEADER = re.compile(r"^[ \t]*\[{1,2}[A-Za-z_][\w.\"' -]*\]{1,2}[ \t]*(?:#.*)?$", re.MULTILINE)
_GIVEN = re.compile(r"\{(?:args|posargs)(?::(?P<default>[^{}]*))?\}")
_MOST_DEPTH = 6


def parse_json_tasks(text: str) -> tuple[Task, ...] | None:
    """Return the `scripts` of a package.json; None for any other text."""
    if not text.lstrip().startswith("{") or '"scripts"' not in text:
        return None
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return None
    scripts = tree.get("scripts") if isinstance(tree, dict) else None
    return tuple(_of_table(scripts)) if isinstance(scripts, dict) else None


def parse_toml_tasks(text: str) -> tuple[Task, ...] | None:
    """Return the tasks that a TOML file has; None for any other text, and for one that has none."""
    if not _HEADER.search(text):
        return None
    import tomllib  # noqa: PLC0415 - a command that is typed needs none

    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError):
        return None
    tasks: list[Task] = []
    for path in _TABLES:
        for table, around in _found(tree, path.split(".")):
            head = "\n".join(_of_project(table, around))
            tasks += (replace(task, head=head) for task in _of_table(table))
    return tuple(tasks) or None


def _of_project(table: Mapping[str, Any], around: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield lines of a shell for what the tables around those of tasks, and `_` in it, set for all tasks."""
    own = table.get("_")
    for each in (*around, *([own] if isinstance(own, dict) else ())):
        for name in _PROJECT_VARIABLES:
            given: Any = each
            for part in name.split("."):
                given = given.get(part) if isinstance(given, dict) else None
            if given and given is not table:
                yield from _set_by(name, given)
        for feature, _ in _found(each, ("feature", "*", "activation")):
            if each is around[0] and not any(one.get("activation") is feature for one in around):
                yield say_left_out(f"{', '.join(feature)} of a feature: {_UNSEEN}")


def _set_by(name: str, given: Any) -> Iterator[str]:
    """Yield lines of a shell for a key of a project: its variables, or a sentence for a file or a script."""
    if not isinstance(given, dict):
        yield say_left_out(
            f"{name} {given if isinstance(given, str) else ', '.join(map(str, given))}: {_UNSEEN}"
        )
        return
    for one, value in given.items():
        if isinstance(value, dict | list) or not _is_name(one):
            yield say_left_out(f"{name}.{one}: {_UNSEEN}")
        else:
            yield f"export {one}={shlex.quote(str(value))}"


def _found(
    tree: Any, path: Sequence[str], around: tuple[Mapping[str, Any], ...] = ()
) -> Iterator[tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]]:
    """Yield the tables at a path, in which `*` is any name, and those around each."""
    if not isinstance(tree, dict) or len(around) > _MOST_DEPTH:
        return
    if not path:
        yield tree, around
        return
    names = list(tree) if path[0] == "*" else [path[0]]
    for name in names:
        if name in tree:
            yield from _found(tree[name], path[1:], (*around, tree))


def _of_table(table: Mapping[str, Any]) -> Iterator[Task]:
    for name, value in table.items():
        lines = _lines(value, table)
        own = [line for line in lines if line not in table]
        if lines and name != "_":
            text = _GIVEN.sub(lambda found: found["default"] or "", "\n".join(own))
            yield Task(name, text, (*_needs(value), *(line for line in lines if line in table)))


def _needs(value: Any) -> tuple[str, ...]:
    """Return the names of the tasks that run before one."""
    needs = next((value[key] for key in _NEEDS if key in value), ()) if isinstance(value, dict) else ()
    return tuple(map(str, needs)) if isinstance(needs, list) else (str(needs),) if needs else ()


def _lines(value: Any, table: Mapping[str, Any]) -> list[str]:
    """Return the commands of a task, in each form that one has; `table` has the tasks that they may name."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        texts = [part for part in value if isinstance(part, str)]
        is_words = len(texts) == len(value) > 1 and " " not in texts[0] and texts[0] not in table
        return [shlex.join(texts)] if is_words else [line for part in value for line in _lines(part, table)]
    if not isinstance(value, dict):
        return []
    commands = next((lines for key in _TEXTS if (lines := _lines(value.get(key), table))), [])
    environment, folder = value.get("env"), value.get("cwd", value.get("dir", ""))
    variables = environment.items() if isinstance(environment, dict) else ()
    exports = [f"export {name}={shlex.quote(str(text))}" for name, text in variables if _is_name(name)]
    unread = list_unread_keys(
        map(str, value), (*_TEXTS, *_NEEDS, "args", "cwd", "dir", *["env"] * bool(exports))
    )
    folder = folder if isinstance(folder, str) else ""
    return [*exports, *_entered(folder), *unread, *commands] if commands else []


def _is_name(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z_]\w*", name) is not None


def _entered(folder: str) -> tuple[str, ...]:
    """Return the command that enters a folder of the project; an absolute one is of the machine."""
    folder = _OF_PROJECT.sub("", folder)
    if folder.startswith(("/", "{", "%", "$", "~")):
        return (say_left_out(f"{folder}: {_OF_MACHINE}"),)
    return (f"cd {shlex.quote(folder)}",) if folder.strip("./") or ".." in folder else ()
