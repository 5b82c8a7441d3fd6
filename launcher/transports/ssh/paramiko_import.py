"""paramiko, imported without two packages that cost more than they give."""

import sys
import threading
from importlib import import_module
from types import ModuleType
from typing import Any

from launcher.local.installed_version import read_installed_version
from preflight.regex import import_late

_UNUSED = "invoke"
"""A fifth to a third of paramiko's import time, which every command over SSH would pay for.

paramiko needs it for its own `Match exec` alone, and does without it where it is not installed.
"""
_METADATA = "importlib.metadata"
"""A fifth of the rest, for it reads mail headers and archives; paramiko asks it for its own version alone."""
_WITH_PATTERNS = ("logging", "string", "textwrap")  # what it imports, and asks nothing that takes a pattern
_importing = threading.Lock()  # hosts are opened by many threads


class _VersionAlone(ModuleType):
    """In the place of importlib.metadata: knows one version, and is the real module for all else."""

    def __init__(self, distribution: str, version: str) -> None:
        super().__init__(_METADATA)
        self._known = distribution, version

    def version(self, distribution: str) -> str:
        """Return the version of an installed distribution."""
        name, version = self._known
        return version if distribution == name else _whole_metadata(self).version(distribution)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system asks for its own marks
            raise AttributeError(name)
        return getattr(_whole_metadata(self), name)


def import_paramiko() -> None:
    """Import paramiko, once for all threads."""
    with _importing:
        if "paramiko" in sys.modules or _UNUSED in sys.modules:
            return
        for name in _WITH_PATTERNS:
            import_late(name)
        sys.modules[_UNUSED] = None  # type: ignore[assignment]  # this is how an import is made to fail
        version = "" if _METADATA in sys.modules else read_installed_version("paramiko")
        stand_in = _VersionAlone("paramiko", version)
        if version:
            sys.modules[_METADATA] = stand_in
        try:
            import_module("paramiko")
        finally:
            del sys.modules[_UNUSED]
            _take_out(stand_in)


def _whole_metadata(stand_in: ModuleType) -> Any:
    _take_out(stand_in)
    return import_module(_METADATA)


def _take_out(stand_in: ModuleType) -> None:
    if sys.modules.get(_METADATA) is stand_in:
        del sys.modules[_METADATA]
