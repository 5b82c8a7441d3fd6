"""The command of a configuration of an editor: `launch.json` and `tasks.json` of Visual Studio Code. Pure."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

from launcher.engines.command_line.side_commands import say_left_out
from launcher.engines.command_line.unread_keys import list_unread_keys
from launcher.errors import CommandRefused
from preflight import regex as re

_LOOKS = re.compile(r"\"(?:module|program|command)\"[ \t]*:")
_COMMENT = re.compile(r"^[ \t]*//[^\n]*$|(?<=[,\[{])[ \t]*//[^\n\"]*$", re.MULTILINE)
_ELLIPSIS = re.compile(r"^[ \t]*(?:\.\.\.|\u2026)[ \t]*,?[ \t]*$", re.MULTILINE)
_LAST_COMMA = re.compile(r",(?=\s*[}\]])")
_FOLDER = re.compile(r"\$\{workspace(?:Folder|Root)\}(?=/|$)")
_OWN_VARIABLE = re.compile(r"\$\{(?:file\w*|input:\w+|command:[\w.]+|relativeFile\w*)\}")
_LAUNCHER = re.compile(r"(?:^|[/\\])(?:torchrun|accelerate|deepspeed|composer|colossalai|python[\d.]*)$")
_NOT_READ = "its variables are not read; env: of a run config sets them"
_READ = ("module", "program", "command", "args", "env", "envFile", "cwd", "python", "options")
_LONGEST = 50_000


def extract_editor_command(text: str) -> str | None:
    """Return the one command of a configuration; None for other texts. Raises CommandRefused for several."""
    if len(text) > _LONGEST or not text.lstrip().startswith(("{", "[")) or not _LOOKS.search(text):
        return None
    try:
        shown = _ELLIPSIS.sub('"...",', _COMMENT.sub("", text))
        tree = json.loads(_LAST_COMMA.sub("", shown).strip().rstrip(","))
    except (ValueError, RecursionError):
        return None
    commands = dict(_commands(tree, 0))
    if len(set(commands.values())) > 1:
        raise CommandRefused(
            f"the file has {len(commands)} configurations: {', '.join(list(commands)[:8])}",
            "paste one of them",
        )
    return next(iter(commands.values()), None)


def _commands(tree: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the name and the command of each configuration."""
    if depth > 4:
        return
    if isinstance(tree, list):
        for one in tree:
            yield from _commands(one, depth + 1)
    elif isinstance(tree, dict):
        command = _command(tree)
        if command:
            yield str(tree.get("name", tree.get("label", "one without a name"))), command
            return
        for one in tree.values():
            yield from _commands(one, depth + 1)


def _command(one: dict[str, Any]) -> str:
    start = next((key for key in ("module", "program", "command") if isinstance(one.get(key), str)), "")
    given = one.get("args", [])
    if not start or not isinstance(given, list | str):
        return ""
    head = _quoted(one[start]) if start != "command" else _filled(one[start])
    python = one.get("python") if isinstance(one.get("python"), str) else "python"
    if start == "program" and _LAUNCHER.search(head):
        start = "command"  # a script of Python too, in which only its name counts
    before = {"module": f"{python} -m {head}", "program": f"{python} {head}"}.get(start, head)
    words = given if isinstance(given, str) else " ".join(_quoted(word) for word in given)
    options = one["options"] if isinstance(one.get("options"), dict) else {}
    found = one.get("env", options.get("env"))
    variables = found if isinstance(found, dict) else {}
    unset = [name for name, value in variables.items() if not _is_variable(name, value)]
    lines = [
        f"export {name}={shlex.quote(_filled(str(value)))}"
        for name, value in variables.items()
        if name not in unset
    ]
    if isinstance(one.get("envFile"), str):
        lines.append(say_left_out(f"envFile {_filled(one['envFile'])}: {_NOT_READ}"))
    folder = one.get("cwd", options.get("cwd"))
    if isinstance(folder, str) and _filled(folder) != ".":
        lines.append(f"cd {shlex.quote(_filled(folder))}")
    lines += list_unread_keys((*one, *options, *unset), _READ)
    return "\n".join((*lines, f"{before} {words}".strip()))


def _is_variable(name: str, value: object) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*", name) is not None and isinstance(value, str | int)


def _quoted(word: object) -> str:
    """Return an argument in quotes; a variable that the editor fills in has no value."""
    shown = str(word.get("value", "") if isinstance(word, dict) else word)  # {"value": ..., "quoting": ...}
    text = _filled(shown)
    return text if text != shown and "<" in text else shlex.quote(text)


def _filled(text: str) -> str:
    text = text.replace("${command:python.interpreterPath}", "python")
    own = _FOLDER.match(text)
    text = text[own.end() + 1 :] or "." if own is not None else text
    return _OWN_VARIABLE.sub("<a variable of the editor>", _FOLDER.sub(".", text))
