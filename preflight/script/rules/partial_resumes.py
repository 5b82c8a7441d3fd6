"""What a checkpoint has, and the run that continues from it leaves unread: part of rule C505."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name
from preflight.script.syntax_trees import ByKind, unparse, walk

_STATES = {"optimizer": re.compile(r"(?i)optim|^opt(?:_|$)"), "scaler": re.compile(r"(?i)scaler|amp")}
_WHERE = re.compile(r"(?i)epoch|step|iter")
_READS_WHERE = re.compile(r"^\s*\w+ *=[^=].*\[.\w*(?:epoch|step|iter)", re.IGNORECASE)
_OF_CHECKPOINTS = re.compile(r"(?i)ck|checkpoint|resum|snap|saved|load")
_ALL = re.compile(
    r"load_state\(|resume_from_checkpoint|for \w+, *\w+ in \w+\.items\(\)"
    r"|\*\*(?:ckpt|checkpoint|state)"
)
"""What reads the whole of a checkpoint."""


def list_unread_states(it: Interpreter) -> Iterator[tuple[CodeLocation, CodeLocation, str, str]]:
    """Yield where weights are read without the state of an optimizer or scaler, and where that is saved."""
    for source in it.sources.files() if not it.sources.mention(_ALL) else ():
        if "load_state_dict" not in source.text:
            continue
        saved, read, loads = it.sources.parser.find_by_kind(_keys, source.tree)
        continues = it.sources.parser.find_by_kind(_continues, source.tree)
        continues = continues or any(
            key in read and form.search(key) for key in saved for form in _STATES.values()
        )
        if not continues or not loads:
            continue
        for key, (node, owner) in saved.items():
            kind = next((kind for kind, form in _STATES.items() if owner and form.search(owner)), "")
            if kind and key not in read and f"{owner}.load_state_dict" not in loads:
                yield (
                    source.place(min(loads.values(), key=lambda each: each.lineno)),
                    source.place(node),
                    kind,
                    owner,
                )


def _continues(kinds: ByKind) -> bool:
    """Whether the epoch or step of a checkpoint is where a loop starts, or an attribute has it."""
    names = set[str]()
    for node in kinds.get(ast.Assign, ()):
        read = (part.slice for part in walk(node.value) if isinstance(part, ast.Subscript))
        if any(isinstance(key, ast.Constant) and _WHERE.search(str(key.value)) for key in read):
            names.add(get_last_name(node.targets[0]))
    loops = [node for node in kinds.get(ast.Call, ()) if get_last_name(node) == "range"]
    loops += [node.test for node in kinds.get(ast.While, ())]
    return any(get_last_name(part) in names for loop in loops for part in walk(loop))


def list_unused_starts(it: Interpreter) -> Iterator[tuple[CodeLocation, str]]:
    """Yield where a name gets the epoch or step of a checkpoint, and nothing reads it."""
    for source in it.sources.files():
        if "torch.load(" not in source.text and "load_state_dict" not in source.text:
            continue
        lines = [number for number, line in enumerate(source.lines, 1) if _READS_WHERE.search(line)]
        for scope in it.sources.parser.list_nodes(source.tree, ast.FunctionDef) if lines else ():
            if not any(scope.lineno <= number <= (scope.end_lineno or 0) for number in lines):
                continue
            for node, name in it.sources.parser.find_by_kind(_starts, scope):
                yield source.place(node), name


def _keys(kinds: ByKind) -> tuple[dict[str, tuple[ast.expr, str]], set[str], dict[str, ast.Call]]:
    """Return the keys that are saved, each with what its state is of; those that are read; what loads."""
    saved: dict[str, tuple[ast.expr, str]] = {}
    for node in kinds.get(ast.Dict, ()):
        states = [value for value in node.values if get_last_name(value) == "state_dict"]
        for key, value in zip(node.keys, node.values, strict=False) if len(states) > 1 else ():
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                func = value.func if isinstance(value, ast.Call) else None
                of_state = isinstance(func, ast.Attribute) and func.attr == "state_dict"
                saved[key.value] = (
                    value,
                    unparse(func.value) if of_state and isinstance(func, ast.Attribute) else "",
                )
    read = {
        str(node.slice.value)
        for node in kinds.get(ast.Subscript, ())
        if isinstance(node.slice, ast.Constant) and isinstance(node.ctx, ast.Load)
    }
    calls = kinds.get(ast.Call, ())
    read |= {
        str(node.args[0].value)
        for node in calls
        if get_last_name(node) in ("get", "pop") and node.args and isinstance(node.args[0], ast.Constant)
    }
    loads = {unparse(node.func): node for node in calls if get_last_name(node) == "load_state_dict"}
    taken = [part for node in loads.values() for part in node.args if isinstance(part, ast.Subscript)]
    whole = {getattr(part.value, "id", "") for part in taken}
    given = (part for node in calls if get_last_name(node) not in ("print", "len") for part in node.args)
    handed = any(isinstance(part, ast.Name) and part.id in whole for part in given)  # what reads the rest
    return saved, read, {} if handed else loads


def _is_of_checkpoint(owner: str, key: str) -> bool:
    """Whether a name is that of a checkpoint; the state of an optimizer has steps as well."""
    return _OF_CHECKPOINTS.search(owner) is not None or ("state" in owner and "epoch" in key)


def _starts(kinds: ByKind) -> list[tuple[ast.Assign, str]]:
    """Return the assignments of `checkpoint["epoch"] + 1` to a name that the function never reads."""
    found = []
    names = kinds.get(ast.Name, ())
    used = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    shared = {
        name for kind in (ast.Global, ast.Nonlocal) for node in kinds.get(kind, ()) for name in node.names
    }
    for node in kinds.get(ast.Assign, ()):
        target = node.targets[0]
        keys = [
            part.slice.value
            for part in walk(node.value)
            if isinstance(part, ast.Subscript)
            and isinstance(part.slice, ast.Constant)
            and _is_of_checkpoint(unparse(part.value), str(part.slice.value))
        ]
        says_where = any(isinstance(key, str) and _WHERE.search(key) for key in keys)
        if says_where and isinstance(target, ast.Name) and target.id.strip("_"):
            found += [(node, target.id)] if target.id not in used | shared else []
    return found
