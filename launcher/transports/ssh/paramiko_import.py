"""paramiko, imported without a package that it needs for its own `Match exec` alone."""

import sys
import threading
from importlib import import_module

_UNUSED = "invoke"
"""A fifth to a third of paramiko's import time, which every command over SSH would pay for.

paramiko does without it where it is not installed.
"""
_importing = threading.Lock()  # hosts are opened by many threads


def import_paramiko() -> None:
    """Import paramiko, once for all threads."""
    with _importing:
        if "paramiko" in sys.modules or _UNUSED in sys.modules:
            return
        sys.modules[_UNUSED] = None  # type: ignore[assignment]  # this is how an import is made to fail
        try:
            import_module("paramiko")
        finally:
            del sys.modules[_UNUSED]
