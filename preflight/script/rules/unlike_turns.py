"""Loops in which ranks may have unlike numbers of turns, because each goes over its own items or files."""

import ast
from collections.abc import Sequence

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.events import Loop
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_decisions import track_call
from preflight.script.rules.own_measures import get_last_name, list_stores
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values.operations import is_by_rank


@dataclass(frozen=True, slots=True)
class _Turns:
    """Note of whether ranks may have unlike numbers of turns of a loop."""

    place: CodeLocation
    by_rank: bool


def find_unlike_turns(it: Interpreter, loop: Loop) -> str:
    """Return why some ranks may have more turns of a loop than others, "" where nothing says so."""
    key = _Turns(loop.place, loop.by_rank)
    if key not in it.notes:
        with track_call(it, loop.calls):
            turns = [node for node in it.list_nodes(ast.For) if it.place(node) == loop.place]
            by_items = loop.by_rank and any(_takes_every_nth(it, node) for node in turns)
            by_files = not by_items and any(_reads_own_files(it, node) for node in turns)
        it.notes[key] = [loop.place] * (1 if by_items else 2 if by_files else 0)
    reasons = (
        "",
        "ranks may have one turn more than others",
        "ranks whose own files hold more have more turns",
    )
    return reasons[len(it.notes[key])]


_EVEN = re.compile(
    r"(?i)pad|repeat|cycle|drop|trunc|even|join|steps|total_size|num_samples|^min$|^max$|islice|^zip|batch_size|broadcast"
)
"""Names in a function that may give all ranks one number of turns."""
_RANKS = re.compile(r"(?i)world|rank|replica|proc|gpus|shards")


def _takes_every_nth(it: Interpreter, loop: ast.For) -> bool:
    """Whether a loop goes over `items[rank::world]`, and nothing makes the number of items a multiple."""
    if any(type(node) in (ast.Break, ast.Return) for node in walk(loop)):
        return False
    parts = walk(loop.iter)
    names = {part.id for part in parts if type(part) is ast.Name}
    made = [
        part
        for node in it.list_nodes(ast.Assign)
        if any(getattr(target, "id", "") in names for target in node.targets)
        for part in walk(node.value)
    ]
    if not any(_is_every_nth(it, part) for part in (*parts, *made)):
        return False
    parser = it.sources.parser
    cut = any(type(each.op) is ast.FloorDiv for each in it.list_nodes(ast.BinOp))
    cut = cut or any(type(each) is ast.BinOp and type(each.op) is ast.Mult for each in made)
    cut = cut or any(parser.find(_ask_rest, source.tree) for source in it.sources.files())
    return not cut and not any(map(_EVEN.search, list_names(it.nodes)))


def _ask_rest(nodes: Sequence[ast.AST]) -> bool:
    """Whether code asks what a length leaves: `len(files) % world`, `len(files) // world * world`."""
    rests = (each for each in nodes if type(each) is ast.BinOp and type(each.op) in (ast.Mod, ast.FloorDiv))
    return any("len(" in unparse(each.left) and _RANKS.search(unparse(each.right)) for each in rests)


def _is_every_nth(it: Interpreter, node: ast.AST) -> bool:
    if type(node) is ast.Subscript and type(node.slice) is ast.Slice:
        lower = node.slice.lower if node.slice.step is not None and node.slice.upper is None else None
    elif type(node) is ast.Call and get_last_name(node) == "range" and len(node.args) == 3:
        lower = node.args[0] if type(node.args[1]) is not ast.Constant else None
    else:
        return False
    return lower is not None and is_by_rank(it.evaluate(lower))


_OF_RANK = re.compile(r"(?i)(?:^|[._])(?:global_|my_|dp_)?rank(?:\(\))?$|process_index$|^shard(?:_id)?$")
_YIELDS = re.compile(r"\byield\b")
_DIVIDES = re.compile(
    r"(?i)(?:rank|index|shard)\w*(?:\(\))? *::|% *[\w.()]+ *== *[\w.]*rank|rank[\w.()]* *== *\w+ *%"
)
_OF_FILES = re.compile(r"(?i)file|shard|path|url|part|tar|parquet|glob|listdir|archive|chunk")
_ENDS_TOGETHER = re.compile(
    r"(?i)resampl|repeat|cycle|with_epoch|steps|islice|^min$|^max$|^zip|broadcast|equal|even|pad"
)
"""Names of code in which all ranks have one number of turns, or may."""


def _reads_own_files(it: Interpreter, loop: ast.For) -> bool:
    """Whether a loop goes over what a generator or class of the script reads of `files[rank::world]`."""
    if not it.sources.mention(_YIELDS) or not it.sources.mention(_DIVIDES):
        return False
    if any(type(node) in (ast.Break, ast.Return) for node in walk(loop)):
        return False
    makings = _list_makings(it, loop.iter)
    streams = any(type(part) in (ast.Yield, ast.YieldFrom) for part in makings)
    if not streams or not any(map(_is_own_part_of_files, makings)):
        return False
    names = [*list_names(makings), *list_names(it.nodes)]
    managers = (unparse(node.items[0].context_expr) for node in it.list_nodes(ast.With))
    return not any(map(_ENDS_TOGETHER.search, names)) and not any(map(_JOINS.search, managers))


_JOINS = re.compile(r"\bJoin\(|\.join\(\)|join_uneven_inputs")


def _list_makings(it: Interpreter, expr: ast.expr) -> list[ast.AST]:
    """Return the syntax of which a value is made: what its names are given, functions and classes called."""
    parser, source = it.sources.parser, it.source
    local, outer = parser.find(list_stores, it.scope), parser.find(list_stores, source.tree)
    found, seen = walk(expr), set[str]()
    for node in found:  # which grows
        name = get_last_name(node) if type(node) in (ast.Name, ast.Call) else ""
        name = unparse(node) if type(node) is ast.Attribute else name
        if not name or name in seen or len(found) > _MOST_PARTS:
            continue
        seen.add(name)
        stored = local.get(name, []) or outer.get(name, [])
        found += [part for value, _ in stored for part in walk(value)]
        for own in it.list_functions([name]):
            found += parser.nodes(own)
        for cls in parser.list_nodes(source.tree, ast.ClassDef):
            if cls.name == name and any(getattr(each, "name", "") == "__iter__" for each in cls.body):
                found += parser.nodes(cls)
    return found


_MOST_PARTS = 4000


def _is_own_part_of_files(node: ast.AST) -> bool:
    """Whether `files[rank::world]`, or a file of every N, is taken."""
    if type(node) is ast.Subscript and type(node.slice) is ast.Slice:
        piece = node.slice
        own = piece.step is not None and piece.lower is not None and _OF_RANK.search(unparse(piece.lower))
        return bool(own) and _OF_FILES.search(unparse(node.value)) is not None
    if type(node) is ast.comprehension and node.ifs and _OF_FILES.search(unparse(node.iter)):
        return any(_asks_own_turn(test) for test in node.ifs)
    return False


def _asks_own_turn(test: ast.expr) -> bool:
    """Whether `i % world == rank` is asked."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    sides = (test.left, test.comparators[0])
    remains = any(isinstance(side, ast.BinOp) and isinstance(side.op, ast.Mod) for side in sides)
    return remains and any(_OF_RANK.search(unparse(side)) for side in sides)
