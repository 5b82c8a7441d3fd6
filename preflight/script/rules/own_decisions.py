"""Who decides that a loop is left, where the condition names no rank: rank 0, or each by its batches."""

import ast
from collections.abc import Collection, Sequence
from typing import TypeVar, cast

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import RANK_0
from preflight.script.interpreter.events import Loop
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import MEASURE, fed_by, is_of_parts, measured_by
from preflight.script.source import all_names
from preflight.script.syntax_trees import by_kind, walk

T = TypeVar("T", bound=ast.AST)
EACH = "each rank"
_AGREES = re.compile(
    r"reduce|gather|broadcast|bcast|scatter|full_tensor|sync|collect|agree|average|mean_across|dist_|consensus"
)
"""Names in calls that give all ranks one value."""
_ALIKE = re.compile(
    r"grad(?!\w*accum)|norm|param|optim|sched|scaler|(?:^|_)(?:val|valid|validation|eval|test|dev)(?:_|$|loader)"
)
"""Names of what is the same on all ranks behind backward(), and of data that each may go through whole."""
_TENSORS = re.compile(r"^(?:zeros|tensor|full|ones|zeros_like|LongTensor|IntTensor|BoolTensor)$")
_LOOKS_AT = frozenset({"print", "int", "bool", "float", "info", "item"})


def decided_by(it: Interpreter, test: ast.expr, loop: Loop) -> str:
    """Return RANK_0 or EACH where that decides alone whether a loop of this function is left, else ""."""
    if loop.number or loop.calls != len(it.stack):
        return ""
    if id(test) not in it.decisions:  # which each visit asks
        it.decisions[id(test)] = _decision(it, test, loop)
    called = it.decisions[id(test)]
    if called is None:
        return RANK_0
    own = any(_is_model(it, func) for func in called) or measures(it, test, loop) or _is_empty(it, test, loop)
    return EACH if own else ""


def _is_empty(it: Interpreter, test: ast.expr, loop: Loop) -> bool:
    """Whether a condition asks if a part of the batch has nothing in it: `len(targets) == 0`."""
    asked: ast.expr | None = None
    kinds: tuple[str, ...] = ("len", "numel", "sum", "item")
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        asked, kinds = test.operand, ("any",)
    elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
        asked = test.left if getattr(test.comparators[0], "value", None) == 0 else None
    counts = isinstance(asked, ast.Call) and _called(asked) in kinds
    if asked is None or not counts or agreed_in(it, _all(it, ast.Call)):
        return False
    named = {part.id for part in walk(asked) if isinstance(part, ast.Name)}
    turns = [node for node in _all(it, ast.For) if it.place(node) == loop.place]
    return any(named & set(fed_by(node, _names)) and is_of_parts(it, node.iter) for node in turns)


def measures(it: Interpreter, test: ast.expr, loop: Loop | None = None) -> str:
    """Return by what each rank answers a condition for itself, "" where none or all are known to agree."""
    key = (MEASURE, id(test))
    if key not in it.notes:
        turns = [node for node in _all(it, *_LOOPS) if loop is not None and it.place(node) == loop.place]
        agreed = any(_AGREES.search(_called(call)) for call in _all(it, ast.Call))
        found = "" if agreed else measured_by(it, test, next(iter(turns), None), _names, agreed_in)
        it.notes[key] = [it.place(test)] if found else []
    return MEASURE if it.notes[key] else ""


def _decision(it: Interpreter, test: ast.expr, loop: Loop) -> list[ast.expr] | None:
    """Return what is called to measure what a condition asks, None where rank 0's tensor decides."""
    turns = [node for node in _all(it, *_LOOPS) if it.place(node) == loop.place]
    names = _names(test)
    if not turns or not names or agreed_in(it, walk(test)):
        return []
    taken = [item for node in _all(it, ast.If) if node.test is test for item in node.body]
    before = [part for item in taken for part in walk(item)]
    if "backward" in all_names(before) or agreed_in(it, before):
        return []  # what leaves takes part first
    calls = [node for node in _all(it, ast.Call) if _AGREES.search(_called(node))]
    agreed = {name for call in calls for name in _given(call)}
    open_names = [name for name in names if name not in agreed]
    if any(_is_flag_of_first(it, name) for name in open_names):
        return None
    inside = _of_batches(it, turns[0])
    fed = {name for node in inside if isinstance(node, ast.For) for name in _fed(node)}
    made = [node for node in inside if isinstance(node, _STORES)]
    return [func for name in open_names for func in _measures(it, name, made, fed, agreed)] if fed else []


_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_STORES = (ast.Assign, ast.AugAssign, ast.AnnAssign)


def _all(it: Interpreter, *kinds: type[T]) -> list[T]:
    """Return the nodes of some kinds in the function around, which many conditions ask."""
    function: ast.AST = it.function.node if it.function else it.source.tree
    sorted_nodes = it.sources.parser.find(by_kind, function)
    return cast("list[T]", [node for kind in kinds for node in sorted_nodes.get(kind, ())])


_FORMS = frozenset(
    {
        *("shape", "ndim", "dtype", "device", "requires_grad", "size", "dim", "numel", "len", "keys"),
        *("isinstance", "hasattr", "callable", "type"),
    }
)
"""Attributes and calls that give the form of a value, which is the same on all ranks, not its numbers."""


def _names(node: ast.AST) -> list[str]:
    """Return the names whose numbers code asks; `out.shape`, `out is None` and `"aux" in out` ask none."""
    parts = walk(node)
    forms = {id(inner) for part in parts if _is_of_form(part) for inner in walk(part)}
    return [part.id for part in parts if isinstance(part, ast.Name) and id(part) not in forms]


def _is_of_form(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return all(isinstance(each, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for each in node.ops)
    return (_called(node) if isinstance(node, ast.Call) else getattr(node, "attr", "")) in _FORMS


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _given(call: ast.Call) -> list[str]:
    """Return the names in the arguments of a call."""
    values = (*call.args, *(word.value for word in call.keywords))
    return [name for value in values for name in _names(value)]


def agreed_in(it: Interpreter, nodes: list[ast.AST]) -> bool:
    """Whether a call gives all ranks one value: by its name, or by what functions call in the end."""
    called, seen = {_called(node) for node in nodes if isinstance(node, ast.Call)}, set[str]()
    names: Collection[str] = called
    while called:
        if any(map(_AGREES.search, names)):
            return True
        seen |= called
        own = [info.node for info in it.functions.values() if getattr(info.node, "name", "") in called]
        inside = [part for node in own for part in it.sources.parser.nodes(node)]
        names, called = (
            all_names(inside),
            {_called(part) for part in inside if isinstance(part, ast.Call)} - seen,
        )
    return any(map(_AGREES.search, names))


def _of_batches(it: Interpreter, loop: ast.AST) -> list[ast.AST]:
    """Return what a loop goes over and stores, without inner loops over data of an evaluation."""
    parser = it.sources.parser
    kept = [node for node in parser.nodes(loop) if isinstance(node, (ast.For, *_STORES))]
    inner = (node for node in kept if isinstance(node, ast.For) and node is not loop)
    left = [node for node in inner if any(map(_ALIKE.search, all_names(walk(node.iter))))]
    inside = {id(part) for node in left for part in parser.nodes(node)}
    return [node for node in kept if id(node) not in inside]


def _fed(node: ast.For) -> list[str]:
    """Return what a loop over data gives each turn; a range counts, and gives all ranks the same."""
    counts = getattr(getattr(node.iter, "func", None), "id", "") in ("range", "trange", "count")
    return [] if counts else _names(node.target)


def _measures(
    it: Interpreter, name: str, made: Sequence[ast.AST], fed: set[str], agreed: set[str]
) -> list[ast.expr]:
    """Return what is called of a batch, in this loop, for what a name is given."""
    names, parts = [name], list[ast.AST]()
    for each in names:  # which grows
        for node in made:
            target, value = _stored(node)
            if value is None or each not in target or node in parts:
                continue
            nodes = walk(value)
            if any(map(_ALIKE.search, all_names(nodes))) or agreed_in(it, nodes):
                return []
            parts.append(node)
            names += _names(value)
    if not agreed.isdisjoint(names):
        return []
    values = [value for node in parts if (value := _stored(node)[1]) is not None]
    used = {each for value in values for each in _names(value)}
    called = [node.func for value in values for node in walk(value) if isinstance(node, ast.Call)]
    return called if used & fed else []


def _stored(node: ast.AST) -> tuple[list[str], ast.expr | None]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    return [name for target in targets for name in _names(target)], getattr(node, "value", None)


def _is_model(it: Interpreter, func: ast.expr) -> bool:
    while isinstance(func, ast.Attribute):
        if it.kind(it.evaluate(func)) in ("model", "engine"):
            return True
        func = func.value
    return isinstance(func, ast.Name) and it.kind(it.evaluate(func)) in ("model", "engine")


def _is_flag_of_first(it: Interpreter, name: str) -> bool:
    """Whether a name is a tensor of the function's own that rank 0 alone fills."""
    made = _all(it, ast.Assign, ast.AnnAssign)
    stores = [_stored(node) for node in made if not _fills(node, name)]
    values = [value for targets, value in stores if targets == [name]]
    if not values or not all(
        isinstance(value, ast.Call) and _TENSORS.search(_called(value)) for value in values
    ):
        return False
    filled = {id(node) for node in _all(it, ast.Call, ast.Assign, ast.AugAssign) if _fills(node, name)}
    firsts = (node for node in _all(it, ast.If) if id(node) in it.of_first)
    by_first = {id(part) for node in firsts for item in node.body for part in walk(item)}
    given = (
        node
        for node in it.nodes
        if isinstance(node, ast.Call) and _called(node) not in _LOOKS_AT and name in _given(node)
    )
    return bool(filled) and filled <= by_first and not any(given)


def _fills(node: ast.AST, name: str) -> bool:
    """Whether a statement changes a tensor in place: `stop += 1`, `stop[0] = 1`, `stop.fill_(1)`."""
    if isinstance(node, ast.Call):
        func = node.func
        return (
            isinstance(func, ast.Attribute)
            and func.attr.endswith("_")
            and getattr(func.value, "id", "") == name
        )
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AugAssign)
        else []
    )
    held = (target.value if isinstance(target, ast.Subscript) else target for target in targets)
    plain = isinstance(node, ast.Assign) and all(isinstance(target, ast.Name) for target in targets)
    return not plain and any(getattr(each, "id", "") == name for each in held)
