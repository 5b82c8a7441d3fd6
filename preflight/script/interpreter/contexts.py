"""What a `with` block or a decorator of a library makes of the code in it."""

import ast
from collections.abc import Iterable
from typing import TYPE_CHECKING

from preflight.script.interpreter.values import UNKNOWN, ExternalName, Func, Ref, Value

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter


def context_kinds(it: "Interpreter", node: ast.expr, value: Value) -> tuple[str, ...]:
    """Return what kinds of `with` blocks a context expression opens."""
    if isinstance(value, Ref):
        return (it.kind(value),)
    if isinstance(node, ast.Call):
        func = it.evaluate(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else UNKNOWN
        return it.yielded_in.get(func.key, ()) if isinstance(func, Func) else (context_of(func),)
    return ()


def is_context_manager(decorators: Iterable[Value]) -> bool:
    """Whether a function with these decorators is a context: `with` gives what it yields."""
    return any(isinstance(item, ExternalName) and item.name in _MANAGERS for item in decorators)


_MANAGERS = ("contextlib.contextmanager", "contextlib.asynccontextmanager")


def context_of(value: Value) -> str:
    """Return the kind of context that a decorator or context manager of a library is."""
    name = value.name if isinstance(value, ExternalName) else ""
    if name.endswith((".no_grad", ".inference_mode")):
        return "no_grad"
    return ""
