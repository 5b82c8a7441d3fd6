"""Steps of optimizers that are made where reading does not see it: by a name, in a file that was not read."""

import ast

from preflight import regex as re
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.values import Unknown, Value

_OF_OPTIMIZERS = re.compile(r"(?i)(?:^|_)opt(?:s|im(?:s|izers?)?)?(?:_|\d*$)")
_OF_SCHEDULES = re.compile(r"(?i)sched|lr|warmup")


def note_step(it: Interpreter, name: str, func: Value, seen: Call) -> None:
    """Send the rules a step() of something unknown that has the name of an optimizer."""
    if name != "step" or not isinstance(func, Unknown):
        return
    owner = _owner_name(seen.node)
    if _OF_OPTIMIZERS.search(owner) and not _OF_SCHEDULES.search(owner):
        it.emit(seen.event("unknown step"))


def _owner_name(call: ast.Call) -> str:
    """Return the name of the object whose method is called, an attribute or item of another one too."""
    owner = getattr(call.func, "value", None)
    owner = owner.value if isinstance(owner, ast.Subscript) else owner
    name: str = getattr(owner, "attr", getattr(owner, "id", ""))
    return name
