"""What differs from rank to rank because the rank is in it: parts of data, seeds, paths."""

import ast
from collections.abc import Callable

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import OTHER_RANKS, RANK_0, asks_rank
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.syntax_trees import walk
from preflight.script.values import Class, Const, Func, Map, OneOf, RankValue, Scalar, Value
from preflight.script.values.constants import OF_RANK, TRUE, UNKNOWN
from preflight.script.values.operations import as_bool, is_by_rank, is_none, join, list_values

PARTED = "parted by rank"
SEEDED = "seeded by rank"
SEEDED_ALIKE = "seeded alike"
"""Notes of where a script chooses items, or seeds what draws them, by the rank; or seeds all ranks alike."""
RANKS = frozenset(
    {
        *("rank", "local_rank", "global_rank", "world_rank", "dist_rank", "ddp_rank", "dp_rank", "proc_id"),
        *("process_index", "local_process_index", "get_rank", "get_local_rank", "get_global_rank"),
        *("get_world_rank", "get_data_parallel_rank", "Get_rank"),
    }
)
"""Names of a rank, of which a value that is not known is one."""
_FIRSTS = frozenset(
    {
        *("is_main_process", "is_local_main_process", "is_world_process_zero", "is_local_process_zero"),
        *("is_global_zero", "is_rank_zero", "is_rank_0", "is_master", "is_master_process"),
    }
)
"""Names of what is true on the first rank only."""
_NAMES = RANKS | _FIRSTS
_OF_DEVICES = frozenset(
    {"device", "devices", "device_id", "device_ids", "map_location", "output_device", "gpu", "gpu_id"}
)
_MOVES = frozenset({"to", "cuda", "set_device", "get_device_name", "get_device_properties"})
_COLLECTORS = frozenset({"append", "add", "extend", "insert", "put", "update", "appendleft"})
_GENERATORS = frozenset({"default_rng", "Random", "RandomState"})


def mark_named_rank(it: Interpreter, name: str, value: Value) -> Value:
    """Return a value; one that is not known, and is named as a rank, is a rank."""
    if (value is not UNKNOWN and type(value) is not OneOf) or name not in _NAMES or it.target.world == 1:
        return value
    if name in _FIRSTS:
        made = RankValue(first=True)
        return join([made if item == UNKNOWN else item for item in list_values(value)])
    return RankValue() if value is UNKNOWN else value


def mark_rank_answer(it: Interpreter, value: Value) -> Value:
    """Return what a function returns: True on rank 0 and False on the others says which rank this is."""
    places = [place for place in it.contexts[it.ways.contexts :] if place in (RANK_0, OTHER_RANKS)]
    if not isinstance(value, (Const, Func)) or not places:
        return value
    first = places[-1] == RANK_0
    if isinstance(value, Const) and isinstance(value.value, bool):
        return RankValue(first=first is value.value)
    return OneOf((value,), {value: first})


def _had_by(value: Value, *, first: bool) -> list[Value]:
    """Return what a value may be on rank 0, or on the other ranks."""
    held = (value.held if isinstance(value, OneOf) else None) or {}
    return [item for item in list_values(value) if held.get(item, first) is first]


def split_by_rank(value: Value, other: Value, *, first: bool) -> Value:
    """Return what has one value on rank 0 (`first`) or on the other ranks, and another where it has not."""
    one, rest = _had_by(value, first=first), _had_by(other, first=not first)
    held = {item: first for item in one if item not in rest} | {
        item: not first for item in rest if item not in one
    }
    joined = join((value, other))
    return OneOf(joined.values, held) if isinstance(joined, OneOf) else joined


def map_alternatives(owner: OneOf, read: Callable[[Value], Value]) -> Value:
    """Return what is read of each thing that a value may be; of None nothing is, so it is another of them."""
    found = {item: read(item) for item in owner.values if not is_none(item)}
    ours, theirs = (
        [value for item, value in found.items() if owner.held and owner.held.get(item) is first]
        for first in (True, False)
    )
    return split_by_rank(join(ours), join(theirs), first=True) if ours and theirs else join(found.values())


def pick_key(key: Value, owner: Map, *fallback: Value) -> Value:
    """Return what a key that is not known picks of a dict: another on each rank, by a key of the rank."""
    values = (*(value for _, value in owner.items), *fallback)
    if isinstance(key, RankValue) and len(set(values)) > 1:
        if all(isinstance(item, Const) for item in values):
            return RankValue()
        first: Scalar = 0 if key.first is None else key.first
        ours = owner.get(first)
        rest = [value for name, value in owner.items if name != first or type(name) is not type(first)]
        if ours is not None and not owner.open and (rest or fallback):
            return split_by_rank(ours, join((*rest, *fallback)), first=True)
    return join((*values, OF_RANK if is_by_rank(key) else UNKNOWN))


def answer_by_rank(value: Value, answer: Callable[[Value], bool | None] = as_bool) -> Value:
    """Return what a question about a value that differs with the rank says of it; else the value itself."""
    if type(value) is not OneOf or not value.held:
        return value
    answers = [(answer(item), value.held.get(item)) for item in value.values]
    for told in (True, False):
        holders = {first for said, first in answers if said is not (not told)}
        if len(holders) == 1 and None not in holders:
            others = {first for said, first in answers if said is not told}
            both = len(others) == 1 and None not in others and others != holders
            return RankValue(first=holders.pop() is told, sure=None if both else told)
    return value


def without_contradiction(values: list[Value]) -> list[Value]:
    """Return what the returns of a function give: UNKNOWN where rank 0 answers as the others do."""
    answers = {value.first for value in values if type(value) is RankValue}
    if answers >= {True, False}:
        return [UNKNOWN]
    alone = [value for value in values if type(value) is OneOf and not value.values[1:]]
    if len({first for value in alone for first in (value.held or {}).values()}) > 1:
        return values
    # Of one branch alone, as the other was not read: all ranks have it.
    return [value.values[0] if type(value) is OneOf and not value.values[1:] else value for value in values]


def mark_rank_result(it: Interpreter, func: Value, call: Call, result: Value) -> Value:
    """Return what a call gives; what it makes of the rank unseen is by rank too, a place on a GPU not."""
    if result is not UNKNOWN or type(func) is Class:
        return result
    called = call.node.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if type(func) is Func:
        by_rank = name in RANKS or _answers_by_rank(it, func)
        return RankValue() if by_rank and it.target.world > 1 else result
    named_words = [word for word, value in call.kwargs.items() if is_by_rank(value)]
    by_rank = any(map(is_by_rank, call.args)) or not _OF_DEVICES.issuperset(named_words)
    seeded = by_rank and ("seed" in name or name in _GENERATORS or "seed" in named_words)
    if seeded or ("device_specific" in call.kwargs and call.kwargs["device_specific"] == TRUE):
        it.note(SEEDED, call.place)
    elif "seed" in name:
        it.note(SEEDED_ALIKE, call.place)
    if (name in RANKS or name in _FIRSTS) and it.target.world > 1:
        return RankValue(first=True if name in _FIRSTS else None)
    return OF_RANK if is_by_rank(func) or (by_rank and name not in _MOVES) else result


def _answers_by_rank(it: Interpreter, func: Func) -> bool:
    """Whether a function gives the answer to a question that names the rank: `return single or rank == 0`."""
    body = getattr(it.functions[func.key].node, "body", ())
    last = body[-1] if isinstance(body, list) else None
    question = last.value if isinstance(last, ast.Return) else None
    return isinstance(question, (ast.BoolOp, ast.Compare)) and asks_rank(question)


def note_choice(it: Interpreter, node: ast.Compare | ast.BinOp, left: Value, right: Value) -> None:
    """Note `i % world_size == rank` and `(i + rank) % n`: which items are chosen depends on the rank."""
    if "no_grad" in it.contexts:
        return  # of what is evaluated
    if isinstance(node, ast.Compare):
        of_left, of_right = is_by_rank(left), is_by_rank(right)
        if of_left is of_right:
            return
        chosen = _is_remainder(node.left if of_right else node.comparators[0])
    else:
        chosen = _is_remainder(node) and isinstance(node.left, ast.BinOp) and is_by_rank(left)
    if chosen:
        it.note(PARTED, it.place(node))


_PARTS = re.compile(r"_split|chunk|partition|shard", re.IGNORECASE)


def note_part(it: Interpreter, node: ast.Subscript, key: Value) -> None:
    """Note `np.array_split(files, world_size)[rank]`: which items are chosen depends on the rank."""
    called = (part.func for part in walk(node.value) if isinstance(part, ast.Call))
    names = (getattr(func, "attr", getattr(func, "id", "")) for func in called)
    if is_by_rank(key) and "no_grad" not in it.contexts and any(map(_PARTS.search, names)):
        it.note(PARTED, it.place(node))


def forget_choice(it: Interpreter, before: int, body: list[ast.stmt]) -> None:
    """Forget what a condition has noted since there were `before` notes, where its branch collects nothing.

    `if i % world_size == rank: save(sample)` shares out work, and says nothing of the data that train.
    """
    noted = it.notes.get(PARTED, [])
    if len(noted) > before and not any(_collects(node) for item in body for node in walk(item)):
        del noted[before:]


def _collects(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", "") in _COLLECTORS
    stored = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return stored or isinstance(node, (ast.Yield, ast.YieldFrom, ast.Continue, ast.Return))


def _is_remainder(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
