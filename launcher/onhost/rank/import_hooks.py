"""Hooks after the import of modules of others, and after calls of their functions."""

import functools
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Sequence

from .context import Report, run_safely


def hook_call(owner: Any, name: str, look: Callable[..., None], report: Report) -> None:
    """Wrap a function so that `look` gets the first argument after each successful call of it."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        run_safely("look after %s" % name, report, functools.partial(look, *args[:1]))
        return result

    setattr(owner, name, wrapper)


def hook_imports(watched: dict[str, Callable[[ModuleType], None]], report: Report) -> None:
    """Call back for each watched module once it has been imported; at once if it already is.

    A sitecustomize or a .pth file of the environment may import torch at Python's start.
    """
    for name in [name for name in watched if name in sys.modules]:
        action, module = watched.pop(name), sys.modules[name]
        run_safely("look at %s" % name, report, functools.partial(action, module))
    if watched:
        sys.meta_path.insert(0, AfterImport(watched, report))


class AfterImport:
    """Meta path finder that finds no module itself; it calls back once a watched module has been executed."""

    def __init__(self, watched: dict[str, Callable[[ModuleType], None]], report: Report) -> None:
        self.watched = watched
        self.report = report

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the other finders find a watched module, and have its loader call back."""
        action = self.watched.pop(name, None)
        if action is None:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(name, path, target)
            if spec is not None:
                self._hook(spec.loader, action)
                return spec
        return None

    def _hook(self, loader: Any, action: Callable[[ModuleType], None]) -> None:
        if not hasattr(loader, "exec_module"):
            return
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)  # a hook within this one has no more to take away
            execute(module)
            run_safely("look at %s" % module.__name__, self.report, lambda: action(module))

        loader.exec_module = exec_module
