"""Values that a decorator gives a parameter: options of click, configurations of pyrallis and hydra.

That of hydra is a file or a stored node, with what its list of defaults names of groups.
"""

import ast
import posixpath
from dataclasses import replace

from preflight.script.interpreter import calls, classes, config_files
from preflight.script.interpreter.call_arguments import read_arguments
from preflight.script.interpreter.events import Call, FuncInfo
from preflight.script.interpreter.interpreter import Interpreter, unwrap_value
from preflight.script.values import Class, Const, ExternalName, Func, Map, Method, OneOf, Ref, Seq, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, list_values, merge_maps

OF_KINDS = frozenset(
    {
        *("builtins.property", "builtins.classmethod", "builtins.staticmethod", "functools.cached_property"),
        *("contextlib.contextmanager", "contextlib.asynccontextmanager"),
    }
)
"""Decorators that say how a function is called: its callers look at them."""
_DISPATCHERS = ("functools.singledispatch", "functools.singledispatchmethod")


def is_command(node: ast.AST) -> bool:
    """Whether a function is a command of click or typer: the program starts one of them."""
    called = (item.func for item in getattr(node, "decorator_list", ()) if isinstance(item, ast.Call))
    return any(isinstance(item, ast.Attribute) and item.attr == "command" for item in called)


def apply_decorator(it: Interpreter, decorator: Value, defined: Value, node: ast.AST) -> Value:
    """Return what a decorator puts in the place of a function or class, once it has noted what it notes.

    Decorators of libraries leave it what it is, and so does one that returns nothing reading knows.
    """
    if isinstance(decorator, ExternalName) and decorator.name in _DISPATCHERS:
        return UNKNOWN  # the kind of an argument decides which function is called
    if not _is_read(it, decorator):
        return defined
    dead = it.state.dead
    result = calls.call_value(it, decorator, unwrap_value(it, node, (defined,)))
    it.state.dead = dead
    replaces = isinstance(result, (Ref, Func)) or (isinstance(result, OneOf) and result.held)
    made = result if replaces and result != defined else defined
    it.dispatchers.update(
        item.key for item in list_values(made) if isinstance(item, Func) and item != defined
    )
    return made


def _is_read(it: Interpreter, decorator: Value) -> bool:
    """Whether a decorator is a registry, or of the script: a function, what has __call__."""
    if isinstance(decorator, Class):
        names = {name for info in it.mro(decorator.key) for name in info.names}
        return "__call__" in names and "__get__" not in names
    if isinstance(decorator, Ref):
        by_kind = it.kind(decorator) in ("registration", "partial")
        return by_kind or classes.find_method(it, decorator, "__call__") is not None
    is_registry = isinstance(decorator, Method) and it.kind(decorator.owner) == "registry"
    return is_registry or isinstance(decorator, Func)


def find_injected_value(it: Interpreter, info: FuncInfo, name: str) -> Value:
    """Return what a decorator puts in: the default of a click option, the configuration of hydra.main."""
    if isinstance(info.node, ast.Lambda):
        return UNKNOWN
    for node in info.node.decorator_list:
        func = it.evaluate(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ExternalName):
            continue
        seen = read_arguments(it, node)
        if func.name in ("click.option", "click.argument", "typer.Option"):
            flags = [as_text(item) or "" for item in seen.args]
            spelled = {part.lstrip("-").replace("-", "_") for flag in flags for part in flag.split("/")}
            if name in spelled:
                return (
                    FALSE
                    if seen.get("is_flag") == TRUE and "default" not in seen.kwargs
                    else seen.get("default") or UNKNOWN
                )
        if func.name == "hydra.main":
            found = compose_config(it, seen)
            return found if found != UNKNOWN else _annotated(it, info.node, name, seen)
        if func.name in ("pyrallis.wrap", "draccus.wrap", "pyrallis.argparsing.wrap"):
            return _annotated(it, info.node, name, seen)
    return UNKNOWN


def _annotated(it: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, seen: Call) -> Value:
    """Return an object of the dataclass that a parameter is annotated with: its defaults."""
    for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        cls = it.evaluate(parameter.annotation) if parameter.arg == name and parameter.annotation else UNKNOWN
        if isinstance(cls, Class):
            return classes.instantiate(it, cls, replace(seen, args=(), kwargs={}, places={}, open=False))
    return UNKNOWN


_STORE = -2  # the thing on the heap that holds what the script gives hydra's ConfigStore, by group and name
_MAX_DEPTH = 3  # lists of defaults in one another that are followed


def open_config_store(it: Interpreter, call: Call) -> Value:
    """Return the store: one for the whole program."""
    if it.thing(_STORE) is None:
        it.put(_STORE, HeapObject("config store", call.place))
    return Ref(_STORE)


def store_config(it: Interpreter, call: Call) -> Value:
    """ConfigStore.instance().store(group="model", name="small", node=Small)."""
    name, group = as_text(call.get("name", 0)), as_text(call.get("group", 2)) or ""
    if name is not None:
        it.change(_STORE, **{f"{group}/{name.removesuffix('.yaml')}": call.get("node", 1) or UNKNOWN})
    return NONE


def compose_config(it: Interpreter, call: Call) -> Value:
    """Return what hydra.main(config_path, config_name) passes to its function, Unknown where nothing is."""
    folder, name = as_text(call.get("config_path", 0)), as_text(call.get("config_name", 1))
    return UNKNOWN if name is None else _Composition(it, call, folder or "").config("", name, _MAX_DEPTH)


class _Composition:
    """The configuration of one call, in which hydra takes each file or node once."""

    def __init__(self, it: Interpreter, call: Call, folder: str) -> None:
        self._it, self._call, self._folder = it, call, folder
        self._taken: set[str] = set()

    def config(self, group: str, name: str, depth: int) -> Value:
        """Return what a name of a group stands for, with its own list of defaults."""
        key = f"{group}/{name.removesuffix('.yaml')}"
        if key in self._taken:
            return UNKNOWN
        self._taken.add(key)
        path = posixpath.join(self._folder, f"{key.removeprefix('/')}.yaml")
        found = config_files.load_config(self._it, Const(path))
        if found == UNKNOWN:
            found = _stored(self._it, self._call, key)
        listed = found.get("defaults") if isinstance(found, Map) else self._it.attr(found, "defaults")
        for item in listed.items if isinstance(listed, Seq) and depth else ():
            found = self._with_default(group, found, item, depth - 1)
        return found

    def _with_default(self, group: str, whole: Value, item: Value, depth: int) -> Value:
        """Return a configuration with one entry of its list of defaults: `base`, or `model: small`."""
        name = as_text(item)
        if name is not None:  # of the same group
            under = self.config(group, name, depth) if name != "_self_" else UNKNOWN
            return merge_maps(under, whole) if isinstance(under, Map) and isinstance(whole, Map) else whole
        key, chosen = _choice(item)
        if not key or chosen is None:
            return whole
        inner = self.config(f"{group}/{key}" if group else key, chosen, depth)
        if inner == UNKNOWN:
            return whole
        if isinstance(whole, Ref):
            self._it.change(whole.id, **{key: inner})
        elif isinstance(whole, Map):
            own = whole.get(key)
            if isinstance(own, Map) and isinstance(inner, Map):
                inner = merge_maps(inner, own)
            others = ((word, value) for word, value in whole.items if word != key)
            return Map((*others, (key, inner)), whole.open, whole.places)
        return whole


def _stored(it: Interpreter, call: Call, key: str) -> Value:
    node = it.attr(_STORE, key, UNKNOWN)
    if isinstance(node, Class):
        return classes.instantiate(it, node, unwrap_value(it, call.node, ()))
    return node if isinstance(node, (Map, Ref)) else UNKNOWN


def _choice(item: Value) -> tuple[str, str | None]:
    """Return the group and the name that `model: small` chooses; a group in another package is left out."""
    if not isinstance(item, Map) or len(item.items) != 1:
        return "", None
    key, value = item.items[0]
    group = str(key).removeprefix("optional ")
    return (group, as_text(value)) if group.isidentifier() else ("", None)
