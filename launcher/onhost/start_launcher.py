"""Program that becomes a launcher of ranks.

    start_launcher.py -m MODULE args...        (as `python` itself takes them)

A launcher imports torch before it starts a rank, and keeps all of it to its end. Searches for garbage among
these million objects, during the import and at the end, take a quarter of the launcher's CPU, so what its
package imports is left out of them. Its own objects are collected as ever. NumPy, a twelfth of the import, is
optional for torch and only of use where tensors are, and so are the packages of other devices.
Standard library, Python >= 3.9.
"""

import gc
import os
import runpy
import sys
import warnings

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


def main() -> None:
    """Import the module's package without collections, then run the module in this process."""
    name = sys.argv[2]
    del sys.argv[1:3]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.getcwd()  # as `python -m` does
    gc.disable()
    package = name.partition(".")[0]
    if package != "torch":
        __import__(package)
    elif not import_bare_torch():  # as a new program nothing is left out, and a broken torch says so itself
        os.execv(sys.executable, [sys.executable, "-m", name, *sys.argv[1:]])  # noqa: S606 - no shell
    gc.freeze()
    gc.enable()
    run = runpy._run_module_as_main  # type: ignore[attr-defined] # noqa: SLF001 - the function of `python -m`
    run(name)


def import_bare_torch() -> bool:
    """Import torch as if NumPy were not installed; return whether it can. The ranks still find NumPy."""
    given = {name: os.environ[name] for name in (_AUTOLOAD,) if name in os.environ}
    os.environ[_AUTOLOAD] = "0"
    hidden = sys.modules.setdefault("numpy", None) is None  # type: ignore[arg-type]
    warnings.filterwarnings("ignore", "Failed to initialize NumPy")
    try:
        __import__("torch")
    except Exception:
        return False
    finally:
        del os.environ[_AUTOLOAD]
        os.environ.update(given)
        if hidden:
            del sys.modules["numpy"]
    return True


if __name__ == "__main__":
    main()
