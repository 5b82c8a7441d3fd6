"""The door of the command `gpulaunch`, and of `python -m gpulaunch`.

`launcher` and `preflight` are names that a user's project may have for packages of its own, and PYTHONPATH=.
puts that project first. So the two are found where this package lies, whatever the path says.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder

_USAGE, _INTERRUPTED = 2, 130  # as launcher.exit_codes has them
_WITHOUT_DOCSTRINGS = 2  # `python -OO`
_KEPT_LEVEL = "GPULAUNCH_PYTHONOPTIMIZE"
_OURS = frozenset({"launcher", "preflight"})
_TOP = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120 - pathlib is slow to import


class OwnPackages:
    """Finds our own packages, and knows of no other (importlib.abc.MetaPathFinder)."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Return where one of them is."""
        del path, target  # they are at the top for every import
        return PathFinder.find_spec(name, [_TOP]) if name in _OURS else None


def _keep_docstrings() -> None:
    """Start again without PYTHONOPTIMIZE=2, which some images set: --help and explain print docstrings.

    The environment is as it was afterwards, for trainings on this machine.
    """
    if sys.flags.optimize < _WITHOUT_DOCSTRINGS:
        if _KEPT_LEVEL in os.environ:
            os.environ["PYTHONOPTIMIZE"] = os.environ.pop(_KEPT_LEVEL)
    elif sys.executable and "PYTHONOPTIMIZE" in os.environ:
        os.environ[_KEPT_LEVEL] = os.environ.pop("PYTHONOPTIMIZE")
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - the same command
    else:
        sys.stderr.write(
            "error: python -OO leaves out the texts that gpulaunch prints\n  fix: leave out -OO\n"
        )
        sys.exit(_USAGE)


def main() -> None:
    """Run the command."""
    _keep_docstrings()
    sys.meta_path.insert(0, OwnPackages)
    try:
        from launcher.cli import main as run  # noqa: PLC0415 - not before it is known which one

        run()
    except KeyboardInterrupt:  # while the modules are imported: the handler of all errors is one of them
        sys.exit(_INTERRUPTED)
