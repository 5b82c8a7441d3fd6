"""Layers whose output a model gives and no loss takes: the training that calls it never reads the name."""

import ast
from collections.abc import Iterator

from preflight.facts.script import CodeLocation
from preflight.script.interpreter.events import THROUGH, ClassInfo
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.syntax_trees import ByKind
from preflight.script.values import Func

Unpacked = dict[int, tuple[int, frozenset[int]]]


def list_unread_layers(it: Interpreter, info: ClassInfo) -> Iterator[tuple[str, CodeLocation]]:
    """Yield the layers of a wrapped model that give an output of forward() no training reads, with where."""
    forward = info.names.get("forward")
    given = _list_given(it.functions[forward.key].node) if isinstance(forward, Func) else []
    calls = dict.fromkeys(it.notes.get(THROUGH, ())) if given else {}
    unread: list[frozenset[int]] = []
    for place in calls:
        source = it.sources.get(place.path)
        if source is None:
            return
        scopes = it.sources.parser.list_nodes(source.tree, ast.FunctionDef)
        around = [node for node in scopes if node.lineno <= place.line <= (node.end_lineno or 0)]
        scope = max(around, key=lambda node: node.lineno, default=source.tree)
        size, numbers = it.sources.parser.find_by_kind(_unpacked, scope).get(
            place.line, (0, frozenset[int]())
        )
        unread.append(numbers if size == len(given) else frozenset())
    for number in frozenset[int].intersection(*unread) if unread else ():
        if given[number] and given.count(given[number]) == 1:
            yield given[number], next(iter(calls))


def _list_given(forward: ast.AST) -> list[str]:
    """Return of each output of forward() the layer that gives it alone, "" where that is not known."""
    nodes = [
        node
        for node in ast.walk(forward)
        if isinstance(node, (ast.Return, ast.Assign, ast.Name, ast.Attribute))
    ]
    returns = [node.value for node in nodes if isinstance(node, ast.Return)]
    if len(returns) != 1 or not isinstance(returns[0], ast.Tuple):
        return []
    made = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    named = [node.id for node in nodes if isinstance(node, ast.Name)]
    layers = [node.attr for node in nodes if isinstance(node, ast.Attribute)]
    given = []
    for part in returns[0].elts:
        value = part
        if isinstance(part, ast.Name):  # given a value, and returned
            value = made.get(part.id, part) if named.count(part.id) == 2 else part
        func = value.func if isinstance(value, ast.Call) else None
        own = isinstance(func, ast.Attribute) and getattr(func.value, "id", "") == "self"
        layer = func.attr if isinstance(func, ast.Attribute) and own else ""
        given.append(layer if layers.count(layer) == 1 else "")
    return given


def _unpacked(kinds: ByKind) -> Unpacked:
    """Return the lines that unpack a call: into how many names, and which of them nothing reads."""
    read = {node.id for node in kinds.get(ast.Name, ()) if isinstance(node.ctx, ast.Load)}
    return {
        node.value.lineno: (
            len(node.targets[0].elts),
            frozenset(
                n
                for n, part in enumerate(node.targets[0].elts)
                if getattr(part, "id", "*") not in {*read, "*"}
            ),
        )
        for node in kinds.get(ast.Assign, ())
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Call)
    }
