"""Under which conditions statements of a loop are reached, in a form in which two of them can be compared."""

import ast
import copy

from preflight.frozen import dataclass
from preflight.script.syntax_trees import ByKind, unparse, walk

_DEPTH = 4
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True)
class TurnCondition:
    """What a condition asks, with its names resolved, and whether that holds."""

    text: str
    holds: bool = True

    def denied(self) -> "TurnCondition":
        """Return the opposite."""
        return TurnCondition(self.text, not self.holds)


class TurnConditions:
    """The conditions of one file."""

    def __init__(self, kinds: ByKind) -> None:
        self._kinds = kinds
        self._functions = [node for kind in _FUNCTIONS for node in kinds.get(kind, ())]
        self._parents = {
            id(child): node
            for nodes in kinds.values()
            for node in nodes
            for child in ast.iter_child_nodes(node)
        }

    def list_holders(self, node: ast.AST) -> list[tuple[ast.AST, ast.AST]]:
        """Return what holds a node, the innermost first, each with its part that does."""
        found = list[tuple[ast.AST, ast.AST]]()
        while (parent := self._parents.get(id(node))) is not None:
            found.append((parent, node))
            node = parent
        return found

    def find_function(self, node: ast.AST) -> ast.AST | None:
        """Return the innermost function around a node."""
        return next((each for each, _ in self.list_holders(node) if isinstance(each, _FUNCTIONS)), None)

    def list_conditions(self, node: ast.AST, *, all_loops: bool = False) -> list[tuple[ast.expr, bool]]:
        """Return the conditions under which a turn comes to a node, the innermost first, and if each holds.

        `all_loops`: those of the loops around, too, within the function.
        """
        found = list[tuple[ast.expr, bool]]()
        for holder, part in self.list_holders(node):
            if isinstance(part, ast.stmt):
                found += [(test, False) for test in _list_ways_out(holder, part)]
            if isinstance(holder, ast.IfExp) and part is not holder.test:
                found.append((holder.test, part is holder.body))
            elif isinstance(holder, ast.If) and part is not holder.test:
                found.append((holder.test, any(part is each for each in holder.body)))
            elif isinstance(holder, _FUNCTIONS if all_loops else (*_FUNCTIONS, *_LOOPS)):
                break
        return found

    def resolve(
        self, test: ast.expr, function: ast.AST | None, *, holds: bool, depth: int = _DEPTH
    ) -> list[TurnCondition]:
        """Return what is asked, all of which holds: more than one for an `and`."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.resolve(test.operand, function, holds=not holds, depth=depth)
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And if holds else ast.Or):
            return [
                form
                for part in test.values
                for form in self.resolve(part, function, holds=holds, depth=depth)
            ]
        named = self._find_value(test, function) if depth else None
        if named is not None:
            return self.resolve(named[0], named[1], holds=holds, depth=depth - 1)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return [_of_compare(test, holds=holds)]
        if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod):
            return [TurnCondition(f"{_plain(test)} == 0", not holds)]
        scope = f"{getattr(function, 'name', '')}:" if isinstance(test, ast.Name) else ""
        return [TurnCondition(scope + _plain(test), holds)]

    def _find_value(self, test: ast.expr, function: ast.AST | None) -> tuple[ast.expr, ast.AST | None] | None:
        """Return what a name, attribute or call stands for, and the function in which that is written."""
        if isinstance(test, ast.Name):
            return self._of_name(test.id, function)
        func = test.func if isinstance(test, ast.Call) else test
        if not isinstance(func, (ast.Attribute, ast.Name)) or (
            isinstance(test, ast.Call) and len(test.args) > 0
        ):
            return None
        name = func.attr if isinstance(func, ast.Attribute) else func.id
        made = [each for each in self._functions if each.name == name]
        if len(made) == 1:
            returns = [each.value for each in walk(made[0]) if isinstance(each, ast.Return) and each.value]
            return (returns[0], made[0]) if len(returns) == 1 else None
        stores = [
            node
            for node in self._kinds.get(ast.Assign, ())
            if any(isinstance(each, ast.Attribute) and each.attr == name for each in node.targets)
            and not isinstance(node.value, ast.Constant)
        ]
        return (stores[0].value, self.find_function(stores[0])) if len(stores) == 1 and not made else None

    def _of_name(self, name: str, function: ast.AST | None) -> tuple[ast.expr, ast.AST | None] | None:
        nodes = walk(function) if function is not None else self._kinds.get(ast.Assign, ())
        values = [
            node.value
            for node in nodes
            if isinstance(node, ast.Assign)
            and any(isinstance(each, ast.Name) and each.id == name for each in node.targets)
        ]
        if len(values) == 1:
            return values[0], function
        params = [each.arg for each in function.args.args] if isinstance(function, _FUNCTIONS) else []
        if values or name not in params or not isinstance(function, _FUNCTIONS):
            return None
        calls = [
            node
            for node in self._kinds.get(ast.Call, ())
            if getattr(node.func, "attr", getattr(node.func, "id", "")) == function.name
        ]
        if len(calls) != 1:
            return None
        of_object = isinstance(calls[0].func, ast.Attribute) and params[:1] == ["self"]
        given = dict(zip(params[of_object:], calls[0].args, strict=False))
        given |= {word.arg: word.value for word in calls[0].keywords if word.arg}
        return (given[name], self.find_function(calls[0])) if name in given else None


def _list_ways_out(holder: ast.AST, part: ast.stmt) -> list[ast.expr]:
    """Return the conditions under which the statements in front of one leave its block, the last first."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(holder, name, ())
        if isinstance(block, list) and any(part is each for each in block):
            before = block[: next(number for number, each in enumerate(block) if each is part)]
            ways = (each for each in before if isinstance(each, ast.If) and not each.orelse)
            return [each.test for each in ways if isinstance(each.body[-1], (ast.Continue, ast.Return))][::-1]
    return []


def _of_compare(test: ast.Compare, *, holds: bool) -> TurnCondition:
    """Return `a != b` as what denies `a == b`, and `a < n - 1` as what denies `a == n - 1`."""
    op, left, right = test.ops[0], _plain(test.left), test.comparators[0]
    is_last = isinstance(right, ast.BinOp) and isinstance(right.op, ast.Sub)
    text = f"{left} == {_plain(right)}"
    if isinstance(op, ast.NotEq) or (isinstance(op, ast.Lt) and is_last):
        return TurnCondition(text, not holds)
    if isinstance(op, ast.Gt) and getattr(right, "value", None) == 0 and "%" in left:
        return TurnCondition(text, not holds)
    if isinstance(op, ast.Eq) or (isinstance(op, ast.GtE) and is_last):
        return TurnCondition(text, holds)
    return TurnCondition(_plain(test), holds)


class _Last(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Name(id=node.attr, ctx=ast.Load())


def _plain(node: ast.expr) -> str:
    """Return an expression as text, each attribute as its name alone: `self.accum` is `args.accum`."""
    if any(isinstance(part, ast.Attribute) for part in walk(node)):
        return ast.unparse(_Last().visit(copy.deepcopy(node)))
    return unparse(node)
