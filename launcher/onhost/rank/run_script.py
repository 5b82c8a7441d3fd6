"""Execution of the user's script as `__main__`, indistinguishable from plain `python script.py`."""

import builtins
import functools
import os
import signal
import sys
from types import ModuleType
from typing import Any, Callable

from .setup import STACKS_SIGNAL


def run_as_main(argv: list[str]) -> Callable[[], object]:
    """Set up this process as `python argv...` would for the script; return the function that runs it."""
    option = os.environ.get("GPULAUNCH_LOCAL_RANK_OPTION")
    local = ["%s=%s" % (option, os.environ.get("LOCAL_RANK", "0"))] if option else []
    if argv[0] == "--exec":
        return lambda: _exec(argv[1], local + argv[2:])
    if argv[0] == "-m":
        return _become_module(argv[1], local + argv[2:])
    return _become_script(argv[0], local + argv[1:])


def _exec(program: str, args: list[str]) -> None:
    """Replace this process by a program that is not a Python script.

    The interpreter's own directory is searched first, as if the environment were activated: it has
    `torchrun`.
    """
    beside = os.path.dirname(os.path.abspath(sys.executable))
    os.environ["PATH"] = beside + os.pathsep + os.environ.get("PATH", os.defpath)
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(STACKS_SIGNAL, signal.SIG_IGN)  # else the default action would kill the program
    try:
        os.execvp(program, [program, *args])  # noqa: S606 - deliberately without a shell
    except OSError as error:  # whose text lacks the name
        raise OSError(error.errno, os.strerror(error.errno or 0), program) from None


def _fresh_main() -> ModuleType:
    """Replace `__main__` by an empty module, so that pickling and spawn find the script's names."""
    sys.modules["_gpulaunch_rank"] = sys.modules["__main__"]  # rank.py's module keeps another name
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __spec__=None, __loader__=None, __package__=None)
    sys.modules["__main__"] = main
    return main


def _set_path0(entry: str) -> None:
    """Replace rank.py's directory in sys.path by the entry that python would have added."""
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = entry


def _run_module(*args: Any) -> Callable[[], object]:
    """Return the function of `python -m`, which also runs a directory or an archive, with its arguments."""
    import runpy  # before the script's own directory is in the path

    return functools.partial(runpy._run_module_as_main, *args)  # type: ignore[attr-defined] # noqa: SLF001


def _become_module(name: str, args: list[str]) -> Callable[[], object]:
    run = _run_module(name)
    sys.argv[:] = ["-m", *args]
    _set_path0(os.getcwd())
    _fresh_main().__dict__.pop("__spec__")
    return run


def _become_script(script: str, args: list[str]) -> Callable[[], object]:
    sys.argv[:] = [script, *args]
    if os.path.isdir(script) or script.endswith((".zip", ".pyz", ".pyzw")):
        run_main = _run_module("__main__", False)
        _set_path0(os.path.abspath(script))
        _fresh_main()
        return run_main
    from importlib.machinery import SourceFileLoader

    _set_path0(os.path.dirname(os.path.realpath(script)))
    main = _fresh_main()
    path = os.path.abspath(script)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))

    def run() -> None:
        with open(path, "rb") as file:
            source = file.read()
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)  # noqa: S102 - the user's script

    return run
