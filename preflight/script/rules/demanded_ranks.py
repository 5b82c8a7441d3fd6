"""How many ranks a script demands: `assert dist.get_world_size() == 8`, `if world_size != 8: raise`."""

import ast

from preflight import regex as re
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name
from preflight.script.syntax_trees import ByKind, root_of, unparse, walk

_COUNTS_RANKS = re.compile(r"get_world_size\(\)|\bworld(?:_?size)?\b|num_processes|['\"]WORLD_SIZE['\"]")
_ENDS = frozenset({"exit", "_exit", "abort", "error", "fatal", "SystemExit"})


def find_demanded_ranks(it: Interpreter) -> int | None:
    """Return the number of ranks without which a script stops, None where it says none, or several."""
    found = {
        number
        for source in it.sources.files()
        if it.sources.parser.make(_COUNTS_RANKS.search, source.text)
        for number in it.sources.parser.find_by_kind(_list_demands, source.tree)
    }
    return found.pop() if len(found) == 1 else None


def _list_demands(kinds: ByKind) -> list[int]:
    """Return the numbers of ranks that a file asserts, or without which it raises or exits."""
    statements = [node for node in getattr(root_of(kinds), "body", ()) if isinstance(node, ast.Assign)]
    names = {unparse(node.targets[0]): getattr(node.value, "value", None) for node in statements}
    asked: list[tuple[ast.expr, type[ast.cmpop]]] = [
        (node.test, ast.Eq) for node in kinds.get(ast.Assert, ())
    ]
    asked += [(node.test, ast.NotEq) for node in kinds.get(ast.If, ()) if _ends(node.body)]
    found = []
    for test, kind in asked:
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], kind):
            sides = (test.left, test.comparators[0])
            for counted, wanted in (sides, sides[::-1]):
                number = getattr(wanted, "value", names.get(unparse(wanted)))
                if type(number) is int and number > 1 and _COUNTS_RANKS.search(unparse(counted)):
                    found.append(number)
    return found


def _ends(body: list[ast.stmt]) -> bool:
    """Whether a branch ends the script, and does so by its last statement."""
    last = body[-1]
    calls = (
        isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and get_last_name(last.value) in _ENDS
    )
    return calls or (isinstance(last, ast.Raise) and len(walk(last)) > 1)
