"""What the training script imports, and what of it the interpreter cannot find. Nothing is imported."""

import os
import sys
from importlib.machinery import PathFinder
from typing import Any

from .fact import missing
from .request import ProbeRequest, resolve_path

_MOST_SCRIPT = 512 << 10


def list_absent_modules(ask: ProbeRequest, folders: list[str]) -> Any:
    """Return the modules that the script imports first of all and that are in none of `folders`.

    These are the request's own list, else the script's as it lies on the host: imports in a function, a
    condition or a `try` may never happen, and do not count.
    """
    names = ask.modules
    workdir = resolve_path(ask.paths.get("workdir") or "~")
    named = ask.env.get("PYTHONPATH", "").split(os.pathsep)
    more = [os.path.join(workdir, os.path.expanduser(name)) for name in named if name]
    if ask.script:
        path = os.path.join(workdir, os.path.expanduser(ask.script))
        names = tuple(list_imported_modules(path)) if names is None else names
        more.insert(0, os.path.dirname(path))
    if not names:
        return missing("no script is known", "not-asked")
    return [name for name in names if not _is_found(name, [*more, *folders])]


def list_imported_modules(path: str) -> list[str]:
    """Return the top-level modules that a file imports unconditionally; [] where it is not Python."""
    with open(path, "rb") as file:
        data = file.read(_MOST_SCRIPT + 1)
    try:
        return [] if len(data) > _MOST_SCRIPT else list_imported_names(data.decode("utf-8-sig", "replace"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def list_imported_names(text: str) -> list[str]:
    """Return the top-level modules that a text imports unconditionally. Raises as `ast.parse` does."""
    import ast  # takes longer than all else of a host without a script

    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys(alias.name.partition(".")[0] for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found[node.module.partition(".")[0]] = None
    return list(found)


def _is_found(name: str, folders: list[str]) -> bool:
    if name in sys.builtin_module_names or name == "__future__":
        return True
    if PathFinder.find_spec(name, folders) is not None:
        return True
    for finder in sys.meta_path:  # of development installs
        find = getattr(finder, "find_spec", None)
        if find is not None and find(name, None) is not None:
            return True
    return False
