"""What differs from rank to rank because the rank is in it: parts of data, seeds, paths."""

import ast
from typing import TYPE_CHECKING

from preflight.script.interpreter.events import Call
from preflight.script.interpreter.values import (
    OF_RANK,
    TRUE,
    UNKNOWN,
    Class,
    Func,
    RankValue,
    Value,
    is_by_rank,
)

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter

PARTED = "parted by rank"
SEEDED = "seeded by rank"
"""Notes of where a script chooses items, or seeds what draws them, by the rank."""
_RANKS = frozenset(
    {
        *("rank", "local_rank", "global_rank", "world_rank", "dist_rank", "ddp_rank", "dp_rank", "proc_id"),
        *("process_index", "local_process_index", "get_rank", "get_local_rank", "get_global_rank"),
        *("get_world_rank", "get_data_parallel_rank"),
    }
)
"""Names of a rank, of which a value that is not known is one."""
_OF_DEVICES = frozenset(
    {"device", "devices", "device_id", "device_ids", "map_location", "output_device", "gpu", "gpu_id"}
)
_MOVES = frozenset({"to", "cuda", "set_device", "get_device_name", "get_device_properties"})
_GENERATORS = frozenset({"default_rng", "Random", "RandomState"})


def named(name: str, value: Value) -> Value:
    """Return a value; one that is not known, and is named as a rank, is a rank."""
    return RankValue() if value is UNKNOWN and name in _RANKS else value


def given_by(it: "Interpreter", func: Value, call: Call, result: Value) -> Value:
    """Return what a call gives; what it makes of the rank unseen is by rank too, a place on a GPU not."""
    if result is not UNKNOWN or isinstance(func, (Func, Class)):
        return result
    name = getattr(call.node.func, "attr", getattr(call.node.func, "id", ""))
    named_words = [word for word, value in call.kwargs.items() if is_by_rank(value)]
    by_rank = any(map(is_by_rank, call.args)) or any(word not in _OF_DEVICES for word in named_words)
    seeds = "seed" in name or name in _GENERATORS
    if (by_rank and (seeds or "seed" in named_words)) or call.kwargs.get("device_specific") == TRUE:
        it.notes.setdefault(SEEDED, []).append(call.place)
    if name in _RANKS:
        return RankValue()
    return OF_RANK if is_by_rank(func) or (by_rank and name not in _MOVES) else result


def note_choice(it: "Interpreter", node: ast.expr, *values: Value) -> None:
    """Note `i % world_size == rank` and `(i + rank) % n`: which items are chosen depends on the rank."""
    parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
    remainders = [part for part in parts if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)]
    alone = isinstance(node, ast.BinOp) and not isinstance(node.left, ast.BinOp)
    if remainders and not alone and any(map(is_by_rank, values)):
        it.notes.setdefault(PARTED, []).append(it.place(node))
