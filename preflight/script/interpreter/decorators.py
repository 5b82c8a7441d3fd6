"""Values that a decorator gives a parameter: options of click, configurations of hydra and pyrallis."""

import ast
from dataclasses import replace

from preflight.script.interpreter import calls, classes
from preflight.script.interpreter.events import Call, FuncInfo
from preflight.script.interpreter.hydra_config import compose_config
from preflight.script.interpreter.interpreter import Interpreter, unwrap_value
from preflight.script.interpreter.values import (
    FALSE,
    TRUE,
    UNKNOWN,
    Class,
    ExternalName,
    Func,
    Method,
    OneOf,
    Ref,
    Value,
    as_text,
    list_values,
)

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
        seen = calls.read_arguments(it, node)
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
