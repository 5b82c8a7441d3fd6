"""Branches that show whether gradients are scaled: the condition that scaled the loss decides what follows.

`if scaler: scaler.scale(loss).backward()`, and later `if scaler is not None: ... else: clip`: what the second
`else` clips was never scaled, though the condition is not known.
"""

import ast

from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.state import State
from preflight.script.interpreter.values import Ref, list_values


def enter_branch(it: Interpreter, test: ast.expr, *, holds: bool) -> None:
    """Enter a branch in which a condition holds, or does not."""
    if not it.state.scaled:
        return
    inner, given = _subject(test)
    scaled_if = it.scaled_if.get(ast.unparse(inner)) if it.scaled_if else None
    if scaled_if is None and isinstance(inner, (ast.Name, ast.Attribute)):
        values = list_values(it.evaluate(inner))
        if any(isinstance(item, Ref) and it.kind(item) == "scaler" for item in values):
            scaled_if = True
    if scaled_if is not None and scaled_if is not (holds is given):
        it.state.scaled = False


def leave_branches(it: Interpreter, test: ast.expr, taken: State, other: State) -> None:
    """Note of a condition in which of its branches the loss was scaled."""
    if taken.scaled is not other.scaled and not (taken.dead or other.dead):
        inner, given = _subject(test)
        it.scaled_if[ast.unparse(inner)] = taken.scaled is given


def _subject(test: ast.expr) -> tuple[ast.expr, bool]:
    """Return what a condition asks for, and whether it asks that it is given, or that it is not: `not x`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner, given = _subject(test.operand)
        return inner, not given
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            return test.left, isinstance(test.ops[0], ast.IsNot)
    return test, True


def is_scaling(node: ast.Call) -> bool:
    """Whether some scaler scales what a backward() is of: scaler.scale(loss), or its argument."""
    parts = (getattr(node.func, "value", None), *node.args)
    return any(isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "scale" for part in parts)


def scales_loss(node: ast.Call) -> bool:
    """Whether what scales is called a scaler: which kind it is, reading does not know."""
    scale = getattr(getattr(node.func, "value", None), "func", None)
    owner = getattr(scale, "value", None)
    return "scaler" in getattr(owner, "id", getattr(owner, "attr", "")).lower()
