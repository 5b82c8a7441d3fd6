"""Calls that need not be followed again: read often enough already, or with nothing in them that counts.

A function is read where it is called. Inside loops within loops, and in code that parses files or draws
pictures, that would be most of the work and show nothing new.
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import field

from preflight.frozen import dataclass
from preflight.script.values import Const, Element, Map, OneOf, Ref, Seq, Value
from preflight.script.values.constants import UNKNOWN
from preflight.script.values.operations import is_none

SAME = 2  # calls with the same arguments that are followed: each loop is read twice
_BARREN = 2  # calls in a row without an event or result: the function is taken to have neither
_NOT_FOLLOWED = 0.0, UNKNOWN


@dataclass(slots=True)
class CachedCall:
    """How often a function was followed with the same arguments, and what it gave the last time."""

    times: int = 0
    result: Value = UNKNOWN


@dataclass(slots=True)
class CallCache:
    """What was called in one reading, and what came of it."""

    events: int = 0
    _calls: dict[Hashable, CachedCall] = field(default_factory=dict)
    _barren: dict[int, tuple[float, Value]] = field(default_factory=dict)

    def entry(self, key: int, signature: Hashable) -> CachedCall:
        """Return what is known of calls with these arguments; looked up once, for their hash takes long."""
        return self._calls.setdefault((key, signature), CachedCall())

    def barren_result(self, key: int) -> Value | None:
        """Return what a function gives that had no event, as often as is followed: None or nothing known."""
        times, result = self._barren.get(key, _NOT_FOLLOWED)
        return result if times >= _BARREN else None

    def note(self, key: int, entry: CachedCall, result: Value, *, before: int) -> None:
        """Note what a call gave; `before` is how many events came before it."""
        entry.times += 1
        entry.result = result
        if self.events != before or not (result is UNKNOWN or is_none(result)):
            self._barren[key] = -math.inf, result
            return
        times, last = self._barren.get(key, _NOT_FOLLOWED)
        self._barren[key] = times + 1 if times < 0 or last == result else 1, result


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
