"""Program that becomes a launcher of ranks.

    start_launcher.py -m MODULE args...        (as `python` itself takes them)

A launcher imports torch before it starts a rank, and keeps all of it to its end. Searches for garbage among
these million objects, during the import and at the end, take a quarter of the launcher's CPU, so what its
package imports is left out of them. Its own objects are collected as ever.
Standard library, Python >= 3.9.
"""

import gc
import os
import runpy
import sys


def main() -> None:
    """Import the module's package without collections, then run the module in this process."""
    name = sys.argv[2]
    del sys.argv[1:3]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.getcwd()  # as `python -m` does
    gc.disable()
    __import__(name.partition(".")[0])
    gc.freeze()
    gc.enable()
    run = runpy._run_module_as_main  # type: ignore[attr-defined] # noqa: SLF001 - the function of `python -m`
    run(name)


if __name__ == "__main__":
    main()
