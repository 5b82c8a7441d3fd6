"""Who decides that a loop is left, where the condition names no rank: rank 0, or each by its batches."""

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import RANK_0
from preflight.script.interpreter.events import Loop
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.pattern_words import is_found
from preflight.script.rules.own_measures import (
    AGREES,
    find_holder,
    find_turn_value,
    get_last_name,
    is_agreed_in,
    is_measured_by,
    is_of_parts,
    list_form_nodes,
    list_number_names,
    list_stores,
)
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk

EACH = "each rank"
_ALIKE = re.compile(
    r"grad(?!\w*accum)|norm|param|optim|sched|scaler|(?:^|_)(?:val|valid|validation|eval|test|dev)(?:_|$|loader)"
)
"""Names of what is the same on all ranks behind backward(), and of data that each may go through whole."""
_TENSORS = re.compile(r"^(?:zeros|tensor|full|ones|zeros_like|LongTensor|IntTensor|BoolTensor)$")
_OF_SEVERAL = re.compile(
    r"distrib|Parallel|DDP|FSDP|accelerat|Fabric|lightning|deepspeed|horovod|Trainer|\bcomm\b"
)
"""Names without which a file has nothing that ranks meet in."""
_LOOKS_AT = frozenset({"print", "int", "bool", "float", "info", "item"})


def find_decider(it: Interpreter, test: ast.expr, loop: Loop) -> str:
    """Return RANK_0 or EACH where that decides alone whether a loop of this function is left, else ""."""
    if loop.number or loop.calls != len(it.stack):
        return ""
    if id(test) not in it.decisions:  # which each visit asks
        it.decisions[id(test)] = _decision(it, test, loop) if _may_meet(it) else []
    measured = it.decisions[id(test)]
    if measured is None:
        return RANK_0
    return EACH if any(_is_model(it, func) for func in measured) or has_own_answer(it, test, loop) else ""


def _may_meet(it: Interpreter) -> bool:
    """Whether a script has anything that ranks could meet in: most have not."""
    return any(it.sources.parser.make(_names_ranks, source.text) for source in it.sources.files())


def _names_ranks(text: str) -> bool:
    return is_found(_OF_SEVERAL, text)


def _is_empty(it: Interpreter, test: ast.expr, loop: Loop | None) -> bool:
    """Whether a condition asks if a part of the batch has nothing in it: `len(targets) == 0`."""
    asked: ast.expr | None = None
    kinds: tuple[str, ...] = ("len", "numel", "sum", "item")
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        asked, kinds = test.operand, ("any",)
    elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
        asked = test.left if getattr(test.comparators[0], "value", None) == 0 else None
    counts = isinstance(asked, ast.Call) and get_last_name(asked) in kinds
    if loop is None or asked is None or not counts or is_agreed_in(it, it.list_nodes(ast.Call)):
        return False
    inside = {part.id for part in walk(asked) if isinstance(part, ast.Name)}
    stores = it.sources.parser.find(list_stores, it.scope)
    made = [stores[name][0][0] for name in inside if len(stores.get(name, ())) == 1]
    inside |= {part.id for value in made for part in walk(value) if isinstance(part, ast.Name)}
    turns = [node for node in it.list_nodes(ast.For) if it.place(node) == loop.place]
    return any(inside & set(find_turn_value(node)) and is_of_parts(it, node.iter) for node in turns)


def has_own_answer(it: Interpreter, test: ast.expr, loop: Loop | None = None) -> bool:
    """Whether each rank answers a condition for itself, and none or all are not known to agree."""
    key = ("measures", id(test))
    if key not in it.notes:
        own = _may_meet(it) and (_is_empty(it, test, loop) or _is_measured(it, test, loop))
        it.notes[key] = [it.place(test)] if own else []
    return bool(it.notes[key])


def has_measured_condition(it: Interpreter) -> bool:
    """Whether each rank answers a condition around the current point so, in this function or a caller."""
    inner = next((loop for loop in reversed(it.loops) if not loop.number), None)
    for number, test in enumerate(it.tests):
        calls = [loop for loop in it.loops if loop.number and not loop.caught and loop.tests <= number]
        owner = calls[-1] if calls and (inner is None or calls[-1].calls > inner.calls) else None
        depth = owner.calls if owner else inner.calls if inner else 0
        if depth == len(it.stack):
            found = has_own_answer(it, test)
        else:
            with track_call(it, depth):
                found = has_own_answer(it, test)
        if found:
            return True
    return False


@contextmanager
def track_call(it: Interpreter, depth: int) -> Iterator[None]:
    """Ask for a while what is known in the function that deep in the calls, 0: in the file outside of all."""
    stack = it.stack
    entered = next(
        (loop for loop in it.loops if loop.calls == depth and loop.number and not loop.caught), None
    )
    source = it.sources.get(entered.place.path) if entered else it.sources.files()[0]
    frame = entered.number if entered else it.modules.get(source.path if source else "", it.frame)
    it.stack = stack[:depth]
    try:
        with it.enter_source(source or it.source, frame):
            yield
    finally:
        it.stack = stack


def _is_measured(it: Interpreter, test: ast.expr, loop: Loop | None) -> bool:
    calls = it.list_nodes(ast.Call)
    if loop is None and any(AGREES.search(get_last_name(call)) for call in calls):
        taken = (item for node in it.list_nodes(ast.If) if node.test is test for item in node.body)
        inside = {id(part) for item in taken for part in walk(item)}
        calls = [call for call in calls if id(call) not in inside]  # what comes after the answer
    if any(AGREES.search(get_last_name(call)) for call in calls):
        return False
    turns = [node for node in it.list_nodes(*_LOOPS) if loop is not None and it.place(node) == loop.place]
    return is_measured_by(it, test, next(iter(turns), None))


def _decision(it: Interpreter, test: ast.expr, loop: Loop) -> list[ast.expr] | None:
    """Return what is called to measure what a condition asks, None where rank 0's tensor decides."""
    turns = [node for node in it.list_nodes(*_LOOPS) if it.place(node) == loop.place]
    objects = it.sources.parser.find(_list_objects, it.scope)
    names = _list_held_names(test, objects)
    if not turns or not names or is_agreed_in(it, walk(test)):
        return []
    taken = [item for node in it.list_nodes(ast.If) if node.test is test for item in node.body]
    before = [part for item in taken for part in walk(item)]
    if "backward" in list_names(before) or is_agreed_in(it, before):
        return []  # what leaves takes part first
    calls = [node for node in it.list_nodes(ast.Call) if AGREES.search(get_last_name(node))]
    agreed = {name for call in calls for name in _given(call, objects)}
    open_names = [name for name in names if name not in agreed]
    if any(_is_flag_of_first(it, name) for name in open_names):
        return None
    inside = _of_batches(it, turns[0])
    fed = {name for node in inside if isinstance(node, ast.For) for name in find_turn_value(node)}
    made = [node for node in inside if isinstance(node, _STORES)]
    return [func for name in open_names for func in _measures(it, name, made, fed, agreed)] if fed else []


_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_STORES = (ast.Assign, ast.AugAssign, ast.AnnAssign)


def _given(call: ast.Call, objects: frozenset[str]) -> list[str]:
    """Return the names in the arguments of a call."""
    values = (*call.args, *(word.value for word in call.keywords))
    return [name for value in values for name in _list_held_names(value, objects)]


def _list_objects(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names of a function whose attributes alone it stores: `self.loss = loss; self.step += 1`."""
    stored = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store)]
    owners = {getattr(node.value, "id", "") for node in stored if isinstance(node, ast.Attribute)}
    return frozenset(owners - {node.id for node in stored if isinstance(node, ast.Name)})


def _list_held_names(node: ast.AST, objects: frozenset[str]) -> list[str]:
    """Return the names whose numbers code asks; of an object `self.step` alone, not all that it holds."""
    names = list_number_names(node)
    if objects.isdisjoint(names):
        return names
    forms = list_form_nodes(parts := walk(node))
    held = [part for part in parts if type(part) is ast.Attribute and id(part) not in forms]
    dotted = [unparse(part) for part in held if getattr(part.value, "id", "") in objects]
    return [name for name in names if name not in objects] + dotted


def _of_batches(it: Interpreter, loop: ast.AST) -> list[ast.AST]:
    """Return what a loop goes over and stores, without inner loops over data of an evaluation."""
    parser = it.sources.parser
    kept = [node for node in parser.nodes(loop) if isinstance(node, (ast.For, *_STORES))]
    inner = (node for node in kept if isinstance(node, ast.For) and node is not loop)
    left = [node for node in inner if any(map(_ALIKE.search, list_names(walk(node.iter))))]
    inside = {id(part) for node in left for part in parser.nodes(node)}
    return [node for node in kept if id(node) not in inside]


def _measures(
    it: Interpreter, name: str, made: Sequence[ast.AST], fed: set[str], agreed: set[str]
) -> list[ast.expr]:
    """Return what is called of a batch, in this loop, for what a name is given."""
    names, parts = [name], list[ast.AST]()
    objects = it.sources.parser.find(_list_objects, it.scope)
    stored = it.sources.parser.find(_stored_by, it.scope)
    for each in names:  # which grows
        for node in made:
            target, value = stored[id(node)]
            if value is None or each not in target or node in parts:
                continue
            nodes = walk(value)
            given = (_list_returned_calls(it, part.func) for part in nodes if type(part) is ast.Call)
            if any(map(_ALIKE.search, list_names(nodes))) or is_agreed_in(it, nodes) or None in given:
                return []
            parts.append(node)
            names += _list_held_names(value, objects)
    if not agreed.isdisjoint(names):
        return []
    values = [value for node in parts if (value := stored[id(node)][1]) is not None]
    used = {each for value in values for each in list_number_names(value)}
    called = [node.func for value in values for node in walk(value) if isinstance(node, ast.Call)]
    return called if used & fed else []


def _stored(node: ast.AST, objects: frozenset[str]) -> tuple[list[str], ast.expr | None]:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
    names = [name for target in targets for name in _list_held_names(find_holder(target), objects)]
    return names, getattr(node, "value", None)


def _stored_by(nodes: Sequence[ast.AST]) -> dict[int, tuple[list[str], ast.expr | None]]:
    objects = _list_objects(nodes)
    return {id(node): _stored(node, objects) for node in nodes if isinstance(node, _STORES)}


def _is_model(it: Interpreter, func: ast.expr, depth: int = 2) -> bool:
    """Whether what is called is a model, or a function of the script that gives what a model gave."""
    calls = _list_returned_calls(it, func) if depth else ()
    while isinstance(func, ast.Attribute):
        if it.kind(it.evaluate(func)) in ("model", "engine"):
            return True
        func = func.value
    if isinstance(func, ast.Name) and it.kind(it.evaluate(func)) in ("model", "engine"):
        return True
    return any(_is_model(it, call.func, depth - 1) for call in calls or ())


def _list_returned_calls(it: Interpreter, func: ast.expr) -> list[ast.Call] | None:
    """Return the calls that make the one value of a function of the script, None where all ranks have one."""
    own = it.list_functions([get_last_name(func)])
    return it.sources.parser.find(_find_returned_calls, own[0]) if len(own) == 1 else []


def _find_returned_calls(nodes: Sequence[ast.AST]) -> list[ast.Call] | None:
    stores = list_stores(nodes)
    pending = [node.value for node in nodes if type(node) is ast.Return and node.value]
    if len(pending) != 1 or isinstance(pending[0], ast.Tuple):
        return []
    calls, seen = list[ast.Call](), set[str]()
    for expr in pending:  # which grows
        parts = walk(expr)
        if any(map(_ALIKE.search, list_names(parts))):
            return None
        calls += [part for part in parts if type(part) is ast.Call]
        names = [name for name in list_number_names(expr) if name not in seen]
        seen.update(names)
        pending += [value for name in names for value, _ in stores.get(name, ())]
    return calls


def _is_flag_of_first(it: Interpreter, name: str) -> bool:
    """Whether a name is a tensor of the function's own that rank 0 alone fills."""
    made = it.list_nodes(ast.Assign, ast.AnnAssign)
    stored = it.sources.parser.find(_stored_by, it.scope)
    stores = ((node, *stored[id(node)]) for node in made)
    values = [value for node, targets, value in stores if targets == [name] and not _fills(node, name)]
    made_here = (isinstance(value, ast.Call) and _TENSORS.search(get_last_name(value)) for value in values)
    if not values or not all(made_here):
        return False
    calls = it.list_nodes(ast.Call)
    filled = {id(node) for node in (*calls, *it.list_nodes(ast.Assign, ast.AugAssign)) if _fills(node, name)}
    firsts = (node for node in it.list_nodes(ast.If) if id(node) in it.of_first)
    by_first = {id(part) for node in firsts for item in node.body for part in walk(item)}
    objects = it.sources.parser.find(_list_objects, it.scope)
    given = any(get_last_name(call) not in _LOOKS_AT and name in _given(call, objects) for call in calls)
    return bool(filled) and filled <= by_first and not given


def _fills(node: ast.AST, name: str) -> bool:
    """Whether a statement changes a tensor in place: `stop += 1`, `stop[0] = 1`, `stop.fill_(1)`."""
    if isinstance(node, ast.Call):
        func = node.func
        return get_last_name(func).endswith("_") and getattr(getattr(func, "value", None), "id", "") == name
    targets = getattr(node, "targets", None) or [getattr(node, "target", node)]
    held = (target.value if isinstance(target, ast.Subscript) else target for target in targets)
    plain = not isinstance(node, ast.AugAssign) and all(isinstance(target, ast.Name) for target in targets)
    return not plain and any(getattr(each, "id", "") == name for each in held)
