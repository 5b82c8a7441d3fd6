"""Folders that rank 0 makes, and files of other ranks in them that nothing lets wait."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import RANK_0, find_branch_places
from preflight.script.rules.own_measures import get_last_name
from preflight.script.syntax_trees import ByKind, root_of, unparse, walk

_MEETS = re.compile(
    r"barrier|wait_for|synchroni|broadcast|gather|reduce|init_|prepare|DDP|Parallel|FSDP|\bsleep\b"
)
"""What lets ranks wait for each other, or may."""
_WRITES = frozenset({"save", "save_file", "dump", "savez", "to_csv", "write_text"})


def list_early_writes(kinds: ByKind) -> list[tuple[ast.Call, ast.Call]]:
    """Return the calls by which all ranks write into a folder that rank 0 has just made, each with that."""
    owners = [root_of(kinds), *kinds.get(ast.FunctionDef, ())]
    return [pair for owner in owners for pair in _list_of_block(getattr(owner, "body", []))]


def _list_of_block(block: list[ast.stmt]) -> Iterator[tuple[ast.Call, ast.Call]]:
    for at, node in enumerate(block):
        if not isinstance(node, ast.If) or node.orelse or find_branch_places(node.test)[0] != RANK_0:
            continue
        if any(isinstance(part, (ast.Return, ast.Raise)) for part in walk(node)):
            continue
        made = {_folder(call): call for call in walk(node) if isinstance(call, ast.Call) and _folder(call)}
        for later in block[at + 1 :] if made else ():
            if isinstance(later, (ast.For, ast.While, ast.If, ast.With)) or _MEETS.search(unparse(later)):
                break
            for call in (part for part in walk(later) if isinstance(part, ast.Call)):
                parts = {unparse(part) for part in walk(call) if isinstance(part, (ast.Name, ast.Attribute))}
                if get_last_name(call) in _WRITES and (folder := next(iter(parts & made.keys()), "")):
                    yield call, made[folder]


def _folder(call: ast.Call) -> str:
    """Return the name of the folder that a call makes, "" where it makes none or one without a name."""
    name = get_last_name(call)
    if name in ("makedirs", "mkdir") and isinstance(call.func, ast.Attribute):
        of_os = getattr(call.func.value, "id", "") == "os"
        made = call.args[0] if of_os and call.args else None if of_os else call.func.value
        return unparse(made) if isinstance(made, (ast.Name, ast.Attribute)) else ""
    return ""
