"""Which methods were called of which objects, by where the objects are made: whether one is never called."""

import re

from preflight.facts.script import CodeLocation
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.unused_code import find_unused_lines, list_code_lines

UNSEEN = CodeLocation("", 0)  # the owner of a call that is not known


def note_call(it: Interpreter, method: str, owner: CodeLocation | None, place: CodeLocation) -> None:
    """Note a call of a method of what is made at a place, None where that is not known."""
    it.note(f"owner of {method}", owner or UNSEEN)
    it.note(f"call of {method}", place)


def group_calls(it: Interpreter, method: str) -> list[tuple[CodeLocation, CodeLocation]]:
    """Return where the owner of each call is made, and where the call is."""
    owners, calls = it.notes.get(f"owner of {method}", ()), it.notes.get(f"call of {method}", ())
    return list(dict.fromkeys(zip(owners, calls, strict=True)))


def list_owners(it: Interpreter, method: str) -> set[CodeLocation]:
    """Return where the objects are made of which a method was called, UNSEEN for one that is not known."""
    return set(it.notes.get(f"owner of {method}", ()))


def has_unknown_call(it: Interpreter, method: str, form: str, others: str = "(?!)") -> bool:
    """Whether a text of such a form may be another call of a method, whose owner reading does not know.

    Not what `form` finds in comments or in code that nothing uses, nor where `others` finds, in the names in
    front, that the owner is something else. Both are compiled where they are needed, which is seldom, and not
    at each start.
    """
    known = {(place.path, place.line) for place in it.notes.get(f"call of {method}", ())}
    unused: dict[str, set[int]] = {}
    for source in it.sources.files():
        for found in re.finditer(form, source.text):
            line = source.text.count("\n", 0, found.end() - 1) + 1
            if (source.path, line) in known or line not in it.sources.parser.find(
                list_code_lines, source.tree
            ):
                continue
            unused = unused or find_unused_lines(it)
            before = source.text[: found.start()].rpartition("\n")[2]
            owner = "".join(before.split()[-1:])
            if not ("#" in before or line in unused[source.path] or re.search(others, owner, re.IGNORECASE)):
                return True
    return False
