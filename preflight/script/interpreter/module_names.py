"""Modules that a script imports by a name which it puts together: the head and the tail of such a name."""

import ast

from preflight.script.interpreter.events import ModuleName
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import as_text

_MAX_MODULES = 16  # modules that may have such a name and are read, at most
_MAX_DEPTH = 4


def note_module_name(it: Interpreter, node: ast.expr) -> None:
    """Note `importlib.import_module(f"models.{name}_model")`, whose name is not known."""
    head, tail = _ends(it, node, _MAX_DEPTH)
    if "." in head:
        it.unread_calls.modules[ModuleName(head, tail, it.source)] = None


def _ends(it: Interpreter, node: ast.expr, depth: int) -> tuple[str, str]:
    """Return the head and the tail of a text, as far as they are known."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.JoinedStr):
        parts = node.values
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Name) and depth and as_text(it.lookup(node.id)) is None:
        given = it.sources.parser.find(_assigned_texts, it.source.tree).get(node.id)
        return _ends(it, given, depth - 1) if given is not None else ("", "")
    if parts and depth:
        return _ends(it, parts[0], depth - 1)[0], _ends(it, parts[-1], depth - 1)[1]
    text = as_text(it.evaluate(node.value if isinstance(node, ast.FormattedValue) else node)) or ""
    return text, text


def _assigned_texts(nodes: list[ast.AST]) -> dict[str, ast.expr]:
    """Return the last text that a file puts together for each name."""
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.JoinedStr, ast.BinOp))
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def read_modules(it: Interpreter) -> None:
    """Read the modules that have such names: any of them may be the one."""
    for name in list(it.unread_calls.modules):
        package, _, begin = name.head.rpartition(".")
        level = len(package) - len(package.lstrip("."))
        package = package.lstrip(".")
        found = [
            word
            for word in it.sources.modules_in(package, level, name.source)
            if word.startswith(begin) and word.endswith(name.tail)
        ]
        for word in found[:_MAX_MODULES]:
            source = it.sources.find_import(f"{package}.{word}".lstrip("."), level, name.source)
            if source is not None:
                it.module_frame(source)
