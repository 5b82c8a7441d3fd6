"""What a `with` block or a decorator of a library makes of the code in it."""

import ast
from typing import TYPE_CHECKING

from preflight.script.interpreter.values import UNKNOWN, ExternalName, Ref, Value

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter


def context_kind(it: "Interpreter", node: ast.expr, value: Value) -> str:
    """Return what kind of `with` block a context expression opens."""
    if isinstance(value, Ref):
        return it.kind(value)
    if isinstance(node, ast.Call):
        func = it.evaluate(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else UNKNOWN
        return context_of(func)
    return ""


def context_of(value: Value) -> str:
    """Return the kind of context that a decorator or context manager of a library is."""
    name = value.name if isinstance(value, ExternalName) else ""
    if name.endswith((".no_grad", ".inference_mode")):
        return "no_grad"
    return ""
