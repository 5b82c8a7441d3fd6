"""Libraries that read the command line: absl's flags, and those that start a function or class with it."""

from functools import partial

from preflight.script.interpreter.arguments import decide_option
from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.classes import find_method
from preflight.script.interpreter.events import Call, DeclaredOption
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.libraries.hf_arguments import overlay_arguments
from preflight.script.library_names import TRAINS
from preflight.script.values import Class, Const, ExternalName, Func, Map, RankValue, Ref, Value
from preflight.script.values.constants import NONE, OF_NODE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text

FLAGS = "absl.flags.FLAGS."
_KINDS = {"string": "str", "integer": "int", "float": "float", "enum": "str", "bool": "", "boolean": ""}


def read_flag(it: Interpreter, name: str) -> Value:
    """Return what FLAGS.name has: what the script sets, else what the launch gives, or its default."""
    entry = _entry(it, name)
    if entry is None:
        return UNKNOWN
    thing, declared = it.thing(entry), it.options.declared[entry]
    if thing is not None and "value" in thing.attrs:
        return thing.get("value")
    given = list(it.target.args) if it.target.args is not None else None
    return decide_option(declared, declared.default, given, it.target.switches)


def _entry(it: Interpreter, name: str) -> int | None:
    return next((entry for entry, item in it.options.declared.items() if item.dest == name), None)


def set_flag(it: Interpreter, owner: ExternalName, name: str, value: Value) -> None:
    """Note that a script gives a flag another value: FLAGS.distributed = world_size > 1."""
    entry = _entry(it, name) if f"{owner.name}." == FLAGS else None
    if entry is not None:
        it.change(entry, value=value)


def _define(it: Interpreter, call: Call, kind: str) -> Value:
    name = as_text(call.get("name", 0))
    if name is None:
        return UNKNOWN
    default = call.get("default", 1) or NONE
    switch = kind == "" and isinstance(default, Const)
    flags = (f"--{name}", f"--no{name}") if switch else (f"--{name}",)
    entry = it.allocate(HeapObject("option", call.place, {"default": default}))
    it.options.declared[entry.id] = DeclaredOption(flags, name, default, TRUE if switch else None, kind)
    if isinstance(default, Const) and default.place is not None:
        it.options.places[default.place] = flags[0]
    of_rank = it.options.declared[entry.id].is_local_rank() and it.target.args is None and it.target.world > 1
    value = RankValue(of=OF_NODE) if of_rank else read_flag(it, name)
    it.change(entry.id, value=value)
    return it.allocate(HeapObject("namespace", call.place, {"value": value}))


def _config_file(it: Interpreter, call: Call) -> Value:
    """config_flags.DEFINE_config_file("config", "config/base.py"): what get_config() of that module gives."""
    made, path = _define(it, call, "str"), as_text(call.get("default", 1)) or ""
    source = it.sources.find_import(path.removesuffix(".py").strip("./").replace("/", "."), 0, it.source)
    if not path.endswith(".py") or source is None:
        return made
    function = it.state.frames.get(it.module_frame(source), {}).get("get_config")
    if not isinstance(function, Func):
        return made
    value = call_value(it, function, call.with_arguments())
    declared, name = it.options.declared, as_text(call.get("name", 0))
    entry = next(key for key, item in declared.items() if item.dest == name)
    it.change(entry, value=value)
    declared[entry] = DeclaredOption((), declared[entry].dest, value, None, "")
    return it.allocate(HeapObject("namespace", call.place, {"value": value}))


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


CALLS: dict[str, CallModel] = {
    **{f"absl.flags.DEFINE_{name}": partial(_define, kind=kind) for name, kind in _KINDS.items()},
    "ml_collections.config_flags.DEFINE_config_file": _config_file,
    "ml_collections.config_flags.config_flags.DEFINE_config_file": _config_file,
}
