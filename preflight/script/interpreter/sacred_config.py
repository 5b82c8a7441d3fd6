"""sacred: the configuration that functions of an experiment get for parameters that their calls leave out."""

import ast
from collections.abc import Iterator

from preflight.script.interpreter import config_files
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import UNKNOWN, Const, Map, Value

_CAPTURES = frozenset({"capture", "automain", "main", "command"})


def captured_value(it: Interpreter, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Value | None:
    """Return what sacred puts in for a parameter, None where the function is none of an experiment's."""
    if not any(_is_of(item, _CAPTURES) for item in node.decorator_list):
        return None
    imports = it.sources.parser.imports(it.source.tree)
    if not any(module.partition(".")[0] == "sacred" for module, _ in imports):
        return None
    parts = sorted(_parts(it), key=lambda part: part.lineno)  # the last one of them counts
    found = [value for part in parts if (value := _entry(it, part, name)) is not None]
    return found[-1] if found else UNKNOWN


def _is_of(node: ast.expr, names: frozenset[str]) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return isinstance(called, ast.Attribute) and called.attr in names


def _parts(it: Interpreter) -> Iterator[ast.FunctionDef | ast.Call]:
    """Yield what gives an experiment of this file its configuration, functions and calls."""
    for node in it.sources.parser.nodes(it.source.tree):
        if isinstance(node, ast.FunctionDef):
            if any(_is_of(item, frozenset({"config"})) for item in node.decorator_list):
                yield node
        elif isinstance(node, ast.Call) and _is_of(node, frozenset({"add_config"})):
            yield node


def _entry(it: Interpreter, part: ast.FunctionDef | ast.Call, name: str) -> Value | None:
    """Return an entry: a local of a function, or what a call is given as a dict, a file or keywords."""
    if isinstance(part, ast.Call):
        words = {word.arg: word.value for word in part.keywords}
        given = it.evaluate(part.args[0]) if part.args else UNKNOWN
        held = config_files.loaded(it, given) if isinstance(given, Const) else given
        return (
            it.evaluate(words[name]) if name in words else held.get(name) if isinstance(held, Map) else None
        )
    for statement in (each for each in reversed(part.body) if isinstance(each, ast.Assign)):
        if any(getattr(target, "id", "") == name for target in statement.targets):
            return it.evaluate(statement.value)
    return None
