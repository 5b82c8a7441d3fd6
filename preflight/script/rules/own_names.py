"""What a script itself calls its things: what a fix says to write can run in it."""

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import alternatives

_ASSIGNED = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(?::[^=]+)?=(?!=)")


def name_of(it: Interpreter, kind: str, frame: int | None) -> str:
    """Return what a frame calls a thing of a kind, `self.accelerator` too; "" where it has no name for it."""
    while frame is not None:
        for name, value in it.state.frames.get(frame, {}).items():
            for item in alternatives(value):
                if it.kind(item) == kind:
                    return name
                attributes = getattr(it.thing(item), "attrs", {}) if name == "self" else {}
                for word, part in attributes.items():
                    if it.kind(part) == kind and word.isidentifier():
                        return f"self.{word}"
        frame = it.parents.get(frame)
    return ""


def assigned_name(it: Interpreter, place: CodeLocation, *, of_module: bool = False) -> str:
    """Return the name that a line gives what it makes, "" for none, and for one of a function if asked so."""
    source = it.sources.get(place.path)
    lines = source.lines if source is not None else []
    found = _ASSIGNED.match(lines[place.line - 1]) if 0 < place.line <= len(lines) else None
    if found is None or (of_module and found[0][0].isspace()):
        return ""
    within = lines[place.line - 1][found.end() : place.column - 1].partition("(")[0].strip()
    return f"{found[1]}.sampler" if within.endswith("Loader") else found[1]
