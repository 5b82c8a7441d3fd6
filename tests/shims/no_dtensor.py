"""torch without tensors that are sharded over ranks, for trainings that shard none.

accelerate and transformers import DTensor and FSDP to ask whether something is one. These imports, with the
algebra system that they bring, take two thirds of torch's own. Their classes have no instance among tensors
and models, their functions raise.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

LEFT_OUT = ("torch.distributed.tensor", "torch.distributed.fsdp", "torch.distributed._composable")


class Absent:
    """What no tensor and no model of these trainings is."""

    def __init__(self, *_: object, **__: object) -> None:
        """Take what transformers' tables of placements give."""


def refuse(*_: object, **__: object) -> None:
    """Shard nothing."""
    raise NotImplementedError("a training that needs it runs without this shim")


class AbsentModule(ModuleType):
    """A module that has every public name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = refuse if name.islower() else type(name, (Absent,), {})
        setattr(self, name, found)  # one class, however often it is named
        return found


class AbsentModules:
    """Finds whatever lies in the packages that are left out, and loads nothing."""

    def __init__(self, left_out: Sequence[str]) -> None:
        self.left_out = left_out

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = any(f"{name}.".startswith(f"{package}.") for package in self.left_out)
        return ModuleSpec(name, self, is_package=True) if found else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Leave it empty."""


def turn_on(_: ModuleType) -> None:
    """Find nothing sharded, right after torch.distributed was imported."""
    sys.meta_path.insert(0, AbsentModules(LEFT_OUT))
