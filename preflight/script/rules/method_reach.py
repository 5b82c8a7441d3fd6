"""Which methods of a part of a model are called, where another module calls some of them by name."""

import ast

from preflight.script.interpreter.events import ClassInfo
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.syntax_trees import ByKind, walk
from preflight.script.values import Func


def is_of_unreached_methods(it: Interpreter, info: ClassInfo, layer: str, held_as: list[str]) -> bool:
    """Whether only methods that nothing calls use a layer of a part that another module holds."""
    if len(held_as) != 1:
        return False
    called = set[str]()
    for source in it.sources.files():
        plain, methods = it.sources.parser.find_by_kind(_uses, source.tree)
        if held_as[0] in plain:
            return False  # it is called itself, or handed on
        called |= methods.get(held_as[0], set())
    functions = {
        name: it.functions[each.key].node for name, each in info.names.items() if isinstance(each, Func)
    }
    waiting = [name for name in called if name in functions]
    if not waiting or "forward" in waiting:
        return False
    for name in waiting:  # which grows
        words = {node.attr for node in walk(functions[name]) if isinstance(node, ast.Attribute)}
        waiting += [word for word in words if word in functions and word not in waiting]
    inside = range(info.node.lineno, (info.node.end_lineno or 0) + 1)
    used = [
        (source.path == info.source.path and node.lineno in inside, node)
        for source in it.sources.files()
        for node in it.sources.parser.list_nodes(source.tree, ast.Attribute)
        if node.attr == layer and isinstance(node.ctx, ast.Load)
    ]
    reached = [functions[name] for name in waiting]
    return bool(used) and all(
        own and not any(each.lineno <= node.lineno <= (each.end_lineno or 0) for each in reached)
        for own, node in used
    )


def _uses(kinds: ByKind) -> tuple[set[str], dict[str, set[str]]]:
    """Return the attributes that are used as they are, and of others the methods that code uses of them."""
    nodes = kinds.get(ast.Attribute, ())
    asked = {id(node.value): node.attr for node in nodes}
    plain, methods = set[str](), dict[str, set[str]]()
    for node in nodes:
        if isinstance(node.ctx, ast.Load):
            if id(node) in asked:
                methods.setdefault(node.attr, set()).add(asked[id(node)])
            else:
                plain.add(node.attr)
    return plain, methods
