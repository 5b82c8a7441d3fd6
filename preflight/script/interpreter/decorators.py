"""Values that a decorator gives a parameter: options of click, configurations of hydra and pyrallis."""

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from preflight.script.interpreter import calls, classes, config_files
from preflight.script.interpreter.events import Call, FuncInfo
from preflight.script.interpreter.values import (
    FALSE,
    TRUE,
    UNKNOWN,
    Class,
    Const,
    ExternalName,
    Value,
    text_of,
)

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter


def is_command(node: ast.AST) -> bool:
    """Whether a function is a command of click or typer: the program starts one of them."""
    called = (item.func for item in getattr(node, "decorator_list", ()) if isinstance(item, ast.Call))
    return any(isinstance(item, ast.Attribute) and item.attr == "command" for item in called)


def value_from_decorator(it: "Interpreter", info: FuncInfo, name: str) -> Value:
    """Return what a decorator puts in: the default of a click option, the configuration of hydra.main."""
    if isinstance(info.node, ast.Lambda):
        return UNKNOWN
    for node in info.node.decorator_list:
        func = it.evaluate(node.func) if isinstance(node, ast.Call) else None
        if not isinstance(node, ast.Call) or not isinstance(func, ExternalName):
            continue
        seen = calls.read_arguments(it, node)
        if func.name in ("click.option", "click.argument", "typer.Option"):
            flags = [text_of(item) or "" for item in seen.args]
            spelled = {part.lstrip("-").replace("-", "_") for flag in flags for part in flag.split("/")}
            if name in spelled:
                return (
                    FALSE
                    if seen.get("is_flag") == TRUE and "default" not in seen.kwargs
                    else seen.get("default") or UNKNOWN
                )
        if func.name == "hydra.main":
            folder, stem = text_of(seen.get("config_path", 0)), text_of(seen.get("config_name", 1))
            if stem is not None:
                stem = stem.removesuffix(".yaml")
                file = Const(f"{folder}/{stem}.yaml" if folder else f"{stem}.yaml")
                found = config_files.loaded(it, file)
                return found if found != UNKNOWN else _annotated(it, info.node, name, seen)
        if func.name in ("pyrallis.wrap", "draccus.wrap", "pyrallis.argparsing.wrap"):
            return _annotated(it, info.node, name, seen)
    return UNKNOWN


def _annotated(
    it: "Interpreter", node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, seen: Call
) -> Value:
    """Return an object of the dataclass that a parameter is annotated with: its defaults."""
    for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        cls = it.evaluate(parameter.annotation) if parameter.arg == name and parameter.annotation else UNKNOWN
        if isinstance(cls, Class):
            return classes.instantiate(it, cls, replace(seen, args=(), kwargs={}, places={}, open=False))
    return UNKNOWN
