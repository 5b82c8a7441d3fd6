"""Libraries that start a function or a class of the script with the command line: fire, hydra, typer."""

from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.classes import find_method
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import UNKNOWN, Class, Func, Map, Ref, Value
from preflight.script.libraries.hf_arguments import overlay_arguments
from preflight.script.library_names import TRAINS

ROOTS = frozenset(
    {
        *("fire", "absl", "typer", "tyro", "jsonargparse", "hydra", "click", "asyncio", "plac"),
        *("simple_parsing", "pyrallis", "draccus"),
    }
)


def run_given(it: Interpreter, root: str, call: Call) -> Value:
    """Call what such a library is given, without arguments; return the object of a class."""
    for argument in (*call.args, *(call.get(word) or UNKNOWN for word in ("config_class", "component"))):
        thing = it.thing(argument) if isinstance(argument, Ref) and root == "fire" else None
        cls = argument if thing is None else thing.get("__class__")
        commands = argument.items if isinstance(argument, Map) else ()  # {"train": train}: one is called
        it.unread_calls.functions |= {each.key: each for _, each in commands if isinstance(each, Func)}
        if isinstance(argument, Func):
            call_value(it, argument, _without_arguments(call))
        elif isinstance(cls, Class):
            made = call_value(it, cls, _without_arguments(call)) if thing is None else argument
            if root == "fire":
                return _started(it, cls, made, call)
            overlay_arguments(it, made)
            return made
    return UNKNOWN


def _started(it: Interpreter, cls: Class, made: Value, call: Call) -> Value:
    """Return the object of a class, of which fire calls one method."""
    names = (name for info in it.mro(cls.key) for name in info.names if TRAINS.search(name))
    for name in dict.fromkeys(names):
        method = find_method(it, made, name)
        before = it.state.fork()
        if method is not None and not name.startswith("_"):
            call_value(it, method, _without_arguments(call))
        it.state = before
    return made


def _without_arguments(call: Call) -> Call:
    return call.with_arguments()
