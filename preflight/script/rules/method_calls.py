"""Which methods were called of which objects, by where the objects are made: whether one is never called."""

import re
from typing import TYPE_CHECKING

from preflight.facts.script import CodeLocation

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter

UNSEEN = CodeLocation("", 0)
"""The owner of a call that is not known."""


def note_call(it: "Interpreter", method: str, owner: CodeLocation | None, place: CodeLocation) -> None:
    """Note a call of a method of what is made at a place, None where that is not known."""
    it.notes.setdefault(f"owner of {method}", []).append(owner or UNSEEN)
    it.notes.setdefault(f"call of {method}", []).append(place)


def calls_by_owner(it: "Interpreter", method: str) -> list[tuple[CodeLocation, CodeLocation]]:
    """Return where the owner of each call is made, and where the call is."""
    owners, calls = it.notes.get(f"owner of {method}", ()), it.notes.get(f"call of {method}", ())
    return list(dict.fromkeys(zip(owners, calls, strict=True)))


def owners_of(it: "Interpreter", method: str) -> set[CodeLocation]:
    """Return where the objects are made of which a method was called, UNSEEN for one that is not known."""
    return set(it.notes.get(f"owner of {method}", ()))


def has_unknown_call(it: "Interpreter", method: str, form: str) -> bool:
    """Whether a text of such a form may be another call of a method, whose owner reading does not know.

    `form` is compiled where it is needed, which is seldom, and not at each start.
    """
    known = {(place.path, place.line) for place in it.notes.get(f"call of {method}", ())}
    for source in it.sources.files():
        for found in re.finditer(form, source.text):
            line = source.text.count("\n", 0, found.end() - 1) + 1
            if (source.path, line) not in known:
                return True
    return False
