"""Import system of streamed programs: makes their modules importable on the host, from memory.

The modules get a package of their own, `gpulaunch_<program>`, and import each other relatively: a `launcher`
or `preflight` that is installed on the host, or belongs to the user's script, is neither hidden nor used.
Standard library, Python >= 3.9.
"""

from __future__ import annotations
import __future__

import sys
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any


class MemoryFinder:
    """Finder and loader of one program's modules, which ignores all other names.

    It has no base class: importlib.abc takes longer to import than all of the modules.
    """

    def __init__(self, package: str, sources: dict[str, str]) -> None:
        named = {"%s.%s" % (package, name): source for name, source in sources.items()}
        self._sources = {package: "", **named}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a module (importlib.abc.MetaPathFinder)."""
        del path, target  # names resolve the same for every importer
        if name not in self._sources:
            return None
        is_package = any(other.startswith(name + ".") for other in self._sources)
        loader: Any = self
        return ModuleSpec(name, loader, origin=self._file(name), is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave creation to the import machinery (importlib.abc.Loader)."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module's source in it (importlib.abc.Loader)."""
        exec(self.get_code(module.__name__), module.__dict__)  # noqa: S102 - sent by the client, like the program

    def get_code(self, name: str) -> CodeType:
        """Return a module's code (importlib.abc.InspectLoader)."""
        return compile_module(self._sources[name], self._file(name))

    def get_source(self, name: str) -> str:
        """Return a module's source, for the lines in tracebacks (importlib.abc.InspectLoader)."""
        return self._sources[name]

    def _file(self, name: str) -> str:
        return name.replace(".", "/") + ".py"


def compile_module(source: str, file: str) -> CodeType:
    """Compile with annotations left as text: Python 3.9 cannot evaluate `int | None`."""
    code: CodeType = compile(source, file, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    return code


def run_bundle(name: str, source: str, sources: dict[str, str], scope: dict[str, Any]) -> None:
    """Run `source` in `scope` as the program's first module, with modules of these dotted names beside it."""
    package = "gpulaunch_" + name
    loader: Any = MemoryFinder(package, {name: source, **sources})
    sys.meta_path.insert(0, loader)
    spec = ModuleSpec("%s.%s" % (package, name), loader)
    scope.update(__package__=package, __spec__=spec)
    exec(compile_module(source, name + ".py"), scope)  # noqa: S102 - as above
