"""The arguments of a call, as reading knows them."""

import ast

from preflight.facts.script import CodeLocation
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.syntax_trees import unparse
from preflight.script.values import Map, Seq, Value
from preflight.script.values.operations import join, list_values


def read_arguments(it: Interpreter, node: ast.Call, *, passes: bool = False) -> Call:
    """Return a call with the values of its arguments; `passes`: each gets a name of the script."""
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    places: dict[str, CodeLocation] = {}
    maybe: frozenset[str] = frozenset()
    among: tuple[Value, ...] = ()
    is_open = False
    for part in node.args:
        if type(part) is not ast.Starred:
            if passes:
                it.passed_value = part
            args.append(it.evaluate(part))
            continue
        inner = it.evaluate(part.value)
        if isinstance(inner, Seq) and not inner.open:
            args += inner.items
        elif it.target.args is not None or not _is_argv(part.value):
            is_open = True  # the script's own arguments are not known: its defaults count
            among += inner.items if isinstance(inner, Seq) else ()
    for keyword in node.keywords:
        if passes:
            it.passed_value = keyword.value
        value = it.evaluate(keyword.value)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
            places[keyword.arg] = it.place(keyword)
            continue
        is_open = _spread(kwargs, places, value, it.place(keyword)) or is_open
        maps = [set(dict(item.items)) for item in list_values(value) if isinstance(item, Map)]
        maybe |= {str(name) for names in maps for name in names if any(name not in other for other in maps)}
    return Call(node, it.place(node), tuple(args), kwargs, places, is_open, maybe, among)


def _is_argv(node: ast.expr) -> bool:
    return unparse(node.value if isinstance(node, ast.Subscript) else node) == "sys.argv"


def _spread(
    kwargs: dict[str, Value], places: dict[str, CodeLocation], value: Value, place: CodeLocation
) -> bool:
    """Add what `**value` holds; return whether it may hold more."""
    is_open = False
    options = list_values(value)
    for item in options:
        if not isinstance(item, Map):
            is_open = True
            continue
        is_open = is_open or item.open
        for name, inner in item.items:
            if isinstance(name, str):
                before = kwargs.get(name)
                kwargs[name] = inner if before is None or len(options) == 1 else join((before, inner))
                places[name] = item.places.get(name) or getattr(inner, "place", None) or place
    return is_open
