"""Rule R411: what exchanges of the ranks are given, and what they give."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import BY_RANK, OTHER_RANKS, RANK_0, asks_rank
from preflight.script.interpreter.branches import OF_RANKS
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.rank_values import RANKS
from preflight.script.rules.own_measures import get_last_name, list_stores, list_turn_nodes
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.rules.uneven_gathers import find_uneven
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Const, ExternalName, RankValue, Seq, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.operations import is_by_rank, list_values

_FOR_ONE = {
    "gather": ("gather_list", 1),
    "gather_object": ("object_gather_list", 1),
    "scatter": ("scatter_list", 1),
}
"""Lists that the one rank gives which gets, or sends, what the others have."""
_ROOTS = {"broadcast": ("src", 1), "reduce": ("dst", 1), "broadcast_object_list": ("src", 1)}
_FILLED = frozenset({"all_gather", "gather"})
_IN_PLACE = frozenset(
    {
        *("all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "barrier", "broadcast"),
        *("broadcast_object_list", "gather_object", "reduce", "gather", "scatter", "reduce_scatter"),
        *("scatter_object_list", "reduce_scatter_tensor", "all_to_all", "all_to_all_single"),
        *("all_gather_single", "gather_into_tensor", "gather_single", "reduce_scatter_single"),
    }
)
"""Functions of torch that change what they get, and give None, or a handle where they are asynchronous."""
_ASYNC_AT = 4  # arguments by position with which async_op may be one
_SUM = ExternalName("torch.distributed.ReduceOp.SUM")
_OF_HANDLES = re.compile(r"^(?:wait|is_completed|is_success|get_future|result|exception|boxed|unbox)$")
_WAITS = re.compile(r"synchronize|wait|barrier|coalesc", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _FirstOf:
    """Note of the first of what a function sends and receives, by the ranks that come to it."""

    function: int | None
    ranks: str
    receives: bool


@rule("R411", "exchange", "end")
def arguments_that_no_exchange_takes(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """An exchange of the ranks gets what it refuses, or what it gives is lost.

    all_reduce(), broadcast() and the like of torch change the tensor that they get and give None: `mean =
    dist.all_reduce(loss) / n` stops. With async_op=True they give a handle, and what is read before its
    wait() is not complete yet. gather() and scatter() refuse a list on ranks that neither get nor send it.
    A running total that each turn adds to and adds up over the ranks counts what came before again.
    `[tensor] * n` is one tensor n times, in which all_gather() leaves the last rank's. Tensors of unlike
    sizes, as what a mask leaves, do not fit into those like the own one: ranks wait or have what is not
    theirs. A source by the own rank, `src=rank`, is another on each rank; one that is not in the group is
    refused. All ranks call new_group() in one order, also those that are not in the group: by the number of
    calls torch names a group, and the next one of ranks that disagree never meets. Where every rank receives
    first, none sends.
    Source: torch/distributed/distributed_c10d.py; reproduced on two gloo ranks with torch 2.13.
    """
    if it.target.processes == 1:
        return
    if event.name == "end":
        yield from _all_receive(it)
        return
    call, name = event.call, event.what
    if call is None:
        return
    if name in ("send", "recv", "isend", "irecv"):
        _note_order(it, event)
        return
    apart = not OF_RANKS.isdisjoint(it.contexts)
    if name == "new_group" and call.get("use_local_synchronization", 4) in (None, FALSE):
        yield from _made_by_some(it, event) if apart else _made_of_own_ranks(event)
    by_name = all(word.arg for word in call.node.keywords)  # and not by `**of_rank`
    if name in _FOR_ONE and by_name and not apart and not call.open:
        word, position = _FOR_ONE[name]
        if _is_a_list(call.get(word, position)):
            fix = f"{word}={word} if rank == 0 else None"
            message = f"every rank gives {name}() a list, which only the rank takes that gets or sends all"
            yield RuleHit(call.get_place(word), message, fix, Level.WARNING)
    if name in _ROOTS and not call.open:
        yield from _wrong_root(it, event, call.get(*_ROOTS[name]), apart=apart)
    if name in _FILLED and call.node.args and _repeats_one(it, call.node, name):
        message = f"{name}() fills one tensor that the list holds again and again"
        fix = "[torch.empty_like(x) for _ in range(world_size)]"
        yield RuleHit(event.place, message, fix, Level.WARNING)
    if name == "all_gather" and _is_of_torch(it, call.node) and (made := find_uneven(it, call.node)):
        message = f"each rank's own batch decides the size of this: `{unparse(made)}`"
        fix = "pad it to the longest of all ranks, whose lengths an all_gather() of numbers gives"
        yield RuleHit(event.place, message, fix, Level.WARNING)
    if name == "all_reduce" and call.get("op", 1) in (None, _SUM) and _adds_up_again(it, call.node):
        message = "this adds up in each turn what it has added up in the turns before"
        yield RuleHit(event.place, message, "all_reduce() behind the loop", Level.WARNING)
    if name in _IN_PLACE and _is_of_torch(it, call.node):
        yield from _lost(it, event)


def _made_of_own_ranks(event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield a group of ranks that each rank chooses by its own number."""
    if event.call is not None and is_by_rank(event.call.get("ranks", 0)):
        message = "each rank makes the group alone that it is in: all ranks have to make each group"
        fix = "a loop over the groups that calls new_group() for each on every rank, and keeps the own one"
        yield RuleHit(event.place, message, fix, Level.WARNING)


def _is_a_list(value: Value | None) -> bool:
    """Whether a value is a list with items on all paths."""
    items = list_values(value if value is not None else NONE)
    return all(isinstance(item, Seq) and (item.items or item.open) for item in items)


def _is_of_torch(it: Interpreter, node: ast.Call) -> bool:
    func = it.evaluate(node.func)
    return isinstance(func, ExternalName) and func.name.rpartition(".")[0] == "torch.distributed"


def _made_by_some(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield a group that one branch of ranks makes alone; another one in the other branch may be its like."""
    node = event.call.node if event.call else None
    for each in it.list_nodes(ast.If):
        sides = each.body, each.orelse
        for side, other in (sides, sides[::-1]):
            made = any("new_group" in unparse(item) for item in other)
            if made and any(part is node for item in side for part in walk(item)):
                return
    if RANK_0 in it.contexts and OTHER_RANKS not in it.contexts:
        return  # R404's
    if not any(get_last_name(part) in RANKS for test in it.tests for part in walk(test)):
        return  # no rank's own condition: `if ranks not in groups:`
    message = "not all ranks call this new_group(), also those that are not in it: later groups never meet"
    fix = "call new_group() on every rank, in one order, and use the group in the branch"
    yield RuleHit(event.place, message, fix, Level.WARNING)


def _wrong_root(it: Interpreter, event: ScriptEvent, root: Value | None, *, apart: bool) -> Iterator[RuleHit]:
    call = event.call
    if call is None or root is None:
        return
    group = call.get("group") or NONE
    word = _ROOTS[event.what][0]
    if isinstance(root, RankValue) and root.of and group == NONE and not apart:
        message = f"each rank names itself in {word}=, so no two mean the same one"
        yield RuleHit(call.get_place(word), message, f"{word}=0", Level.WARNING)
    thing = it.thing(group)
    ranks = thing.get("ranks") if thing is not None and thing.kind == "process group" else NONE
    if isinstance(ranks, Seq) and not ranks.open and isinstance(root, Const) and type(root.value) is int:
        known = all(isinstance(item, Const) for item in ranks.items)
        if known and ranks.items and root not in ranks.items:
            message = f"rank {root.value!s} is not in this group, which {event.what}() refuses"
            fix = f"{word}={getattr(ranks.items[0], 'value', 0)}, a rank of the whole launch"
            yield RuleHit(call.get_place(word), message, fix, Level.WARNING)


def _repeats_one(it: Interpreter, call: ast.Call, name: str) -> bool:
    """Whether the list to fill is `[tensor] * n`, written in the call or given the name that it gets."""
    words = [word.value for word in call.keywords if word.arg in ("tensor_list", "gather_list")]
    given = words or call.args[name == "gather" :][:1]
    for node in given:
        stores = [
            each.value
            for each in it.list_nodes(ast.Assign)
            if isinstance(node, ast.Name) and each.lineno <= call.lineno
            if any(getattr(target, "id", "") == node.id for target in each.targets)
        ]
        made = stores[0] if len(stores) == 1 else node
        if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult) and isinstance(made.left, ast.List):
            return any(not isinstance(item, ast.Constant) for item in made.left.elts)
    return False


def _adds_up_again(it: Interpreter, call: ast.Call) -> bool:
    """Whether a loop only adds to a tensor that this call changes in each turn."""
    parts, name = list_turn_nodes(it, call), unparse(call.args[0]) if call.args else ""
    if not any(type(node) is ast.AugAssign for node in parts):
        return False  # most
    adds = [node for _, node in list_stores(parts).get(name, ())]
    root = name.partition(".")[0]
    made = [part for part in parts if type(part) is ast.Name and part.id == root]
    stored = sum(type(part.ctx) is ast.Store for part in made) - (len(adds) if root == name else 0)
    calls = (node.func for node in parts if type(node) is ast.Call and type(node.func) is ast.Attribute)
    changed = any(func.attr.endswith("_") and unparse(func.value) == name for func in calls)
    left = any(type(node) in (ast.Break, ast.Return, ast.Continue) for node in parts)
    added = [type(node) is ast.AugAssign and type(node.op) is ast.Add for node in adds]
    return bool(adds) and all(added) and not (stored or changed or left)


def _lost(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield where the None that an exchange gives is taken for the result, or its handle is thrown away."""
    call = event.call
    if call is None or call.open:
        return
    asynchronous = call.get("async_op") or FALSE
    if asynchronous == TRUE:
        dropped = any(node.value is call.node for node in it.list_nodes(ast.Expr))
        if dropped and not any(map(_WAITS.search, list_names(it.nodes))):
            message = f"nothing waits for this {event.what}(): its handle is thrown away"
            fix = "work = ..., and work.wait() before the result is read"
            yield RuleHit(event.place, message, fix, Level.WARNING)
    elif asynchronous == FALSE and len(call.args) < _ASYNC_AT and _takes_result(it, call.node):
        message = f"{event.what}() gives None: it changes the tensor that it gets"
        fix = f"{event.what}(tensor) on its own line, and the tensor after it"
        yield RuleHit(event.place, message, fix, Level.WARNING)


def _takes_result(it: Interpreter, call: ast.Call) -> bool:
    """Whether code reckons with what a call gives, at once or under the one name that it gets."""
    if any(node.value is call for node in it.list_nodes(ast.Expr)):
        return False
    targets = [node.targets[0] for node in it.list_nodes(ast.Assign) if node.value is call]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    stored = [node for node in it.nodes if type(node) is ast.Name and type(node.ctx) is ast.Store]

    def is_result(node: ast.AST) -> bool:
        if isinstance(node, ast.Name) and node.id in names and node.lineno > call.lineno:
            same = (each for each in stored if each.id == node.id)
            return not any(call.lineno < each.lineno < node.lineno for each in same)
        return node is call

    reads = (node for node in it.nodes if type(node) is ast.Attribute)
    return any(is_result(node.left) or is_result(node.right) for node in it.list_nodes(ast.BinOp)) or any(
        is_result(node.value) and not _OF_HANDLES.search(node.attr) for node in reads
    )


def _note_order(it: Interpreter, event: ScriptEvent) -> None:
    """Note what a function does first, on all ranks or in the branch of some."""
    function = it.stack[-1] if it.stack else None
    ranks = next((place for place in reversed(it.contexts) if place in OF_RANKS), "")
    source = (event.call.get("src", 1) if event.call else None) or UNKNOWN
    known = [key.ranks for key in it.notes if isinstance(key, _FirstOf) and key.function == function]
    if (ranks or not known) and ranks not in known and "" not in known:
        open_tests = any(not ranks or not asks_rank(test) for test in it.tests)
        receives = event.what == "recv" and not open_tests and bool(ranks or not isinstance(source, Const))
        it.note(_FirstOf(function, ranks, receives), event.place)
    it.note((function, event.what[-4:]), event.place)


def _all_receive(it: Interpreter) -> Iterator[RuleHit]:
    """Yield where each rank of a function receives before any of them sends."""
    firsts = [key for key in it.notes if isinstance(key, _FirstOf)]
    for key in firsts:
        if not key.receives or key.ranks == BY_RANK or not it.notes.get((key.function, "send")):
            continue
        other = _FirstOf(key.function, OTHER_RANKS if key.ranks == RANK_0 else RANK_0, receives=True)
        if not key.ranks or (key.ranks == RANK_0 and other in firsts):
            message = "every rank receives first, so none comes to its send(): each waits for ever"
            fix = "send() first on one of them, or dist.batch_isend_irecv()"
            yield RuleHit(it.notes[key][0], message, fix, Level.WARNING)
