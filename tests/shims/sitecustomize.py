"""Python imports this at its start where tests/shims is in PYTHONPATH; SHIMS names what to turn on.

The script stays as its author wrote it, so that what reads it and what runs it see the same lines. Whatever
imports torch or accelerate then gets the shim. Launchers, which are no ranks, get all those that leave
something out of torch, and no other.
"""

import gc
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

AFTER = {
    "cpu_scaler": "accelerate.accelerator",
    "known_models": "transformers.utils.import_utils",
    "no_compiler": "torch._compile",
    "no_dtensor": "torch.distributed",
    "no_extras": "torch._compile",
    "pretended_gpus": "torch",
    "quick_end": "torch",
    "simulated_gpus": "torch",
}
LAUNCHERS = {"accelerate.commands.launch", "torch.distributed.run"}
LIGHT = ("no_compiler", "no_dtensor", "no_extras", "quick_end")


class AfterImport:
    """Lets the other finders find a module, and has shims change it once it has been executed."""

    def __init__(self, shims: list[str]) -> None:
        self.shims = shims

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        shims = [shim for shim in self.shims if AFTER[shim] == name]
        if not shims:
            return None
        self.shims = [shim for shim in self.shims if shim not in shims]
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                _hook(spec.loader, [importlib.import_module(shim).turn_on for shim in shims])
                return spec
        return None


def _hook(loader: Any, changes: list[Callable[[ModuleType], None]]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        for turn_on in changes:
            turn_on(module)

    loader.exec_module = exec_module


_shims = os.environ.get("SHIMS", "").split()
if _shims and LAUNCHERS & set(sys.orig_argv):
    _shims = [*LIGHT]
elif "known_models" in _shims:  # transformers needs them
    _shims = [shim for shim in _shims if shim != "no_extras"]
if "quick_end" in _shims:  # nor searches before the end: a sixth of the CPU of the libraries' import
    gc.disable()
if _shims:
    sys.meta_path.insert(0, AfterImport(_shims))
