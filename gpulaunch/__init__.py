"""The door of the command `gpulaunch`, and of `python -m gpulaunch`.

`launcher` and `preflight` are names that a user's project may have for packages of its own, and PYTHONPATH=.
puts that project first. So the two are found where this package lies, whatever the path says.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder

_INTERRUPTED = 130  # as launcher.exit_codes has it
_OURS = frozenset({"launcher", "preflight"})
_TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - pathlib is slow to import


class OwnPackages:
    """Finds our own packages, and knows of no other (importlib.abc.MetaPathFinder)."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return where one of them is."""
        del path, target  # they are at the top for every import
        return PathFinder.find_spec(name, [_TOP]) if name in _OURS else None


def main() -> None:
    """Run the command."""
    sys.meta_path.insert(0, OwnPackages)
    try:
        from launcher.cli import main as run  # noqa: PLC0415 - not before it is known which one

        run()
    except KeyboardInterrupt:  # while the modules are imported: the handler of all errors is one of them
        sys.exit(_INTERRUPTED)
