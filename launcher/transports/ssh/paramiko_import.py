"""paramiko, imported without what takes half of the time of its import and is of no use to gpulaunch."""

import sys
import threading
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

_INVOKE = "invoke"
"""For paramiko's own `Match exec`; it does without where this is not installed."""
_METADATA = "importlib.metadata"
"""Reads one version of one package, and imports the e-mail parsers for it."""
_importing = threading.Lock()  # hosts are opened by many threads


class _Versions(ModuleType):
    """importlib.metadata, as far as the name of a package's folder answers; the real one for all else."""

    def version(self, package: str) -> str:
        """Return the version of an installed package. Raises PackageNotFoundError."""
        spec = find_spec(package)
        beside = Path(spec.origin).parents[1] if spec is not None and spec.origin else Path()
        found = [path.stem for path in beside.glob(f"{package}-*.dist-info")]
        return found[0].removeprefix(f"{package}-") if len(found) == 1 else self._real().version(package)

    def __getattr__(self, name: str) -> Any:
        """Return what only the real module has."""
        if name.startswith("__"):  # the import system asks for these of any module
            raise AttributeError(name)
        return getattr(self._real(), name)

    def _real(self) -> Any:
        if sys.modules.get(_METADATA) is self:
            del sys.modules[_METADATA]
        return import_module(_METADATA)


def import_paramiko() -> None:
    """Import paramiko, once for all threads."""
    with _importing:
        if "paramiko" in sys.modules:
            return
        stand_ins = {_INVOKE: None, _METADATA: _Versions(_METADATA)}
        placed = {name: module for name, module in stand_ins.items() if name not in sys.modules}
        sys.modules.update(placed)  # type: ignore[arg-type]  # None is how an import is made to fail
        try:
            import_module("paramiko")
        finally:
            for name, module in placed.items():
                if sys.modules.get(name, module) is module:
                    sys.modules.pop(name, None)
