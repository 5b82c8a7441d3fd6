"""Tensors of all_gather() whose sizes each rank's own batch decides."""

import ast
from collections.abc import Sequence

from preflight import regex as re
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name
from preflight.script.syntax_trees import unparse, walk

_OF_ONE_SIZE = re.compile(r"\b(?:zeros|ones|empty|rand|full)_like\(")
_EVENED = re.compile(r"pad|size_|sizes|lengths|all_gather_object")
_CHOOSES = frozenset({"nonzero", "unique", "masked_select", "argwhere"})
_KEEPS = frozenset({"cuda", "to", "contiguous", "detach", "float", "long", "clone", "cpu"})
_OF_BATCH = re.compile(
    r"\bmax\([^\n]*\.item\(\)|\.max\(\)\.item\(\)|\.sum\(\)\.item\(\)|\bint\([^\n]*\.max\(\)\)"
)


def find_uneven(it: Interpreter, call: ast.Call) -> ast.expr | None:
    """Return what gives a tensor of all_gather() a size of its own on each rank, None where nothing may."""
    if len(call.args) < 2 or not isinstance(call.args[1], ast.Name):
        return None
    name, nodes = call.args[1].id, it.nodes
    gathers = [part for part in nodes if isinstance(part, ast.Call) and get_last_name(part) == "all_gather"]
    scope = it.scope if isinstance(it.scope, ast.FunctionDef) else None
    text = "\n".join(it.source.lines[scope.lineno - 1 : scope.end_lineno]) if scope is not None else ""
    if len(gathers) != 1 or _EVENED.search(text) or not _is_of_one_size(call.args[0], nodes, call.lineno):
        return None
    if (made := _last(nodes, name, call.lineno)) is not None:
        return made if _is_by_batch(made, nodes, call.lineno) else None
    names = [each.arg for each in scope.args.args] if scope is not None else []
    if scope is None or name not in names:
        return None
    for source in it.sources.files():
        for function in (*it.sources.parser.list_nodes(source.tree, ast.FunctionDef), source.tree):
            inside = it.sources.parser.nodes(function)
            for use in (part for part in inside if isinstance(part, ast.Call)):
                given = dict(zip(names, use.args, strict=False)).get(name)
                if get_last_name(use) == scope.name and isinstance(given, ast.Name):
                    made = _last(inside, given.id, use.lineno)
                    if made is not None and _is_by_batch(made, inside, use.lineno):
                        return made
    return None


def _last(nodes: Sequence[ast.AST], name: str, line: int) -> ast.expr | None:
    """Return what a name was given last before a line."""
    given = [node for node in nodes if isinstance(node, ast.Assign) and node.lineno < line]
    named = [node for node in given if any(getattr(target, "id", "") == name for target in node.targets)]
    return max(named, key=lambda each: each.lineno).value if named else None


def _is_of_one_size(parts: ast.expr, nodes: Sequence[ast.AST], line: int) -> bool:
    made = _last(nodes, parts.id, line) if isinstance(parts, ast.Name) else parts
    return made is not None and _OF_ONE_SIZE.search(unparse(made)) is not None


def _is_by_batch(node: ast.expr, nodes: Sequence[ast.AST], line: int) -> bool:
    """Whether a tensor is what a mask leaves of another, or what is in front of the longest of a batch."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
        node = node.func.value
    if isinstance(node, ast.Call):
        return get_last_name(node) in _CHOOSES
    if not isinstance(node, ast.Subscript):
        return False
    for part in getattr(node.slice, "elts", [node.slice]):
        if isinstance(part, ast.Slice):
            made = _last(nodes, part.upper.id, line) if isinstance(part.upper, ast.Name) else None
            if made is not None and _OF_BATCH.search(unparse(made)):
                return True
            continue
        made = _last(nodes, part.id, line) if isinstance(part, ast.Name) else part
        compares = made is not None and any(isinstance(each, ast.Compare) for each in walk(made))
        if compares or (isinstance(made, ast.Call) and get_last_name(made) in _CHOOSES):
            return True
    return False
