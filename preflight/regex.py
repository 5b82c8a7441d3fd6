"""The library's `re`, whose patterns are compiled when something first asks them.

A command imports hundreds of patterns and matches with a tenth of them; compiling one takes 0.1 ms. What the
patterns answer, and all else of this module, is what `re` documents.
"""

import re
from importlib import import_module
from re import *  # noqa: F403 - this module takes its place
from types import ModuleType
from typing import TYPE_CHECKING, Any

_compiled = re.compile

if not TYPE_CHECKING:

    class _LatePattern:
        """Stands for a pattern; each of its methods becomes the pattern's own at first use."""

        def __init__(self, pattern: str | bytes, flags: int) -> None:
            self._written = pattern, flags

        def __getattr__(self, name: str) -> Any:
            found = getattr(_compiled(*self._written), name)
            setattr(self, name, found)
            return found

        def __reduce__(self) -> tuple[Any, ...]:
            return compile, self._written

    def compile(pattern: str | bytes, flags: int = 0) -> _LatePattern:  # noqa: A001
        """As re.compile, which raises `error` when the pattern is first used."""
        return _LatePattern(pattern, flags)


def import_late(name: str) -> ModuleType:
    """Import a module of others, whose patterns are compiled when something first asks them.

    For modules that ask them by their methods: the functions of `re` take no pattern but the library's.
    """
    re.compile = compile
    try:
        return import_module(name)
    finally:
        re.compile = _compiled
