"""Calls that need not be followed again: read often enough already, or with nothing in them that counts.

A function is read where it is called. Inside loops within loops, and in code that parses files or draws
pictures, that would be most of the work and show nothing new.
"""

from collections.abc import Callable, Hashable
from dataclasses import field

from preflight.frozen import dataclass
from preflight.script.interpreter.values import NONE, UNKNOWN, Const, Element, Map, OneOf, Ref, Seq, Value

_SAME = 4
"""Calls with the same arguments that are followed: each loop is read twice, and some are in another."""
_BARREN = 4
"""Calls without an event and without a result after which a function is taken to have neither."""


@dataclass(slots=True)
class CallCache:
    """What was called in one reading, and what came of it."""

    events: int = 0
    _results: dict[Hashable, tuple[int, Value]] = field(default_factory=dict)
    _barren: dict[int, int] = field(default_factory=dict)

    def known(self, key: int, signature: Hashable, *, plain: bool) -> Value | None:
        """Return what a call gives without following it, None when it is to be followed."""
        times, result = self._results.get((key, signature), (0, UNKNOWN))
        if times >= _SAME:
            return result
        return UNKNOWN if plain and self._barren.get(key, 0) >= _BARREN else None

    def note(self, key: int, signature: Hashable, result: Value, *, before: int) -> None:
        """Note what a call gave; `before` is how many events came before it."""
        times, _ = self._results.get((key, signature), (0, UNKNOWN))
        self._results[key, signature] = times + 1, result
        empty = self.events == before and result in (UNKNOWN, NONE)
        self._barren[key] = self._barren.get(key, 0) + 1 if empty else -(1 << 30)


def is_plain(value: Value, kind: Callable[[Value], str]) -> bool:
    """Whether a value is nothing that rules are about: no model, optimizer, Accelerator or part of one."""
    if isinstance(value, Ref):
        return kind(value) == "instance"
    if isinstance(value, Element):
        return False
    if isinstance(value, Seq):
        return all(is_plain(item, kind) for item in value.items)
    if isinstance(value, Map):
        return all(is_plain(item, kind) for _, item in value.items)
    if isinstance(value, OneOf):
        return all(is_plain(item, kind) for item in value.values)
    return isinstance(value, Const) or value == UNKNOWN
