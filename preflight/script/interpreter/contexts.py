"""What a `with` block or a decorator of a library makes of the code in it."""

import ast
from collections.abc import Iterable

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import BY_RANK, RANK_0
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.syntax_trees import unparse
from preflight.script.values import Device, ExternalName, Func, Ref, Value
from preflight.script.values.constants import UNKNOWN
from preflight.script.values.operations import as_text, list_values


def list_context_kinds(it: Interpreter, node: ast.expr, value: Value) -> tuple[str, ...]:
    """Return what kinds of `with` blocks a context expression opens; in them its default dtype holds."""
    called = node.func if isinstance(node, ast.Call) else node
    name = getattr(called, "attr", getattr(called, "id", ""))
    if _FIRST.search(name):
        return (BY_RANK,)
    if _is_file_lock(it, called):
        return (BY_RANK,) if "rank" in unparse(node) else (BY_RANK, LOCKED)
    if isinstance(value, Ref):
        return (it.kind(value),)
    if isinstance(value, Device) and value.of_rank:
        it.note("cuda used", it.place(node))  # what its block makes is on the rank's own GPU
    if isinstance(node, ast.Call):
        func = it.evaluate(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else UNKNOWN
        if not isinstance(func, Func):
            return (find_context_kind(func),)
        kinds, it.default_dtype = it.yielded_in.get(func.key, ((), it.default_dtype))
        return kinds
    return ()


def _is_file_lock(it: Interpreter, called: ast.expr) -> bool:
    """Whether a context is a lock that is a file, by its name or by the line that makes it."""
    lines = it.source.lines[called.lineno - 1 : called.end_lineno]
    if not any("lock" in line.lower() for line in lines):
        return False
    name = unparse(called)
    made = re.search(rf"\b{re.escape(name)} *=([^\n]*)\(", it.source.text) if name.endswith("lock") else None
    return any(_FILE_LOCK.search(words) for words in (name, made[1] if made else ""))


NO_SYNC = "no_sync"  # of DDP, which keeps gradients of ranks apart; with its model, the kind of block
SUPPRESS = "contextlib.suppress"
GATHERED = "GatheredParameters"  # of DeepSpeed: each rank holds whole weights
_GATHERS = (f".{GATHERED}", ".unwrap_model_for_generation", ".summon_full_params")
LOCKED = "file lock"  # of what one rank of a host does at a time
STACK = "exit stack"  # the kind of a contextlib.ExitStack: what enters it stays open to the end of its block
_OF_RANK_0 = re.compile(r"rank_?(?:zero|0)|main_process|master|is_main|first_rank|main_only", re.IGNORECASE)


_FIRST = re.compile(r"(?:zero|main|rank_?0|master|process)_first")
"""Contexts in which rank 0 does something before the others: what it has written they find."""
_FILE_LOCK = re.compile(r"(?i)(?:file|dir|process)_?lock|flock|portalocker")
"""Contexts, made by their names, that one process at a time is in: none writes over what another writes."""


def list_decorated_places(node: ast.AST) -> tuple[str, ...]:
    """Return where a function runs by the names of its decorators: on rank 0, as of `@rank_zero_only`."""
    written = (
        item.func if isinstance(item, ast.Call) else item for item in getattr(node, "decorator_list", ())
    )
    names = (getattr(item, "attr", getattr(item, "id", "")) for item in written)
    return (RANK_0,) if any(map(_OF_RANK_0.search, names)) else ()


def is_context_manager(decorators: Iterable[Value]) -> bool:
    """Whether a function with these decorators is a context: `with` gives what it yields."""
    return any(isinstance(item, ExternalName) and item.name in _MANAGERS for item in decorators)


_MANAGERS = ("contextlib.contextmanager", "contextlib.asynccontextmanager")


def find_context_kind(value: Value) -> str:
    """Return the kind of context that a decorator or context manager of a library is."""
    name = value.name if isinstance(value, ExternalName) else ""
    if name.endswith((".no_grad", ".inference_mode")):
        return "no_grad"
    return SUPPRESS if name == SUPPRESS else GATHERED if name.endswith(_GATHERS) else ""


def note_autocast(it: Interpreter, value: Value) -> None:
    """Send the rules an autocast that is in use from now on, where a value is one or may be."""
    for item in list_values(value):
        thing = it.thing(item) if isinstance(item, Ref) and it.kind(item) == "autocast" else None
        if thing is not None and isinstance(item, Ref):
            values = {"dtype": thing.get("dtype"), "enabled": thing.get("enabled")}
            what = as_text(thing.get("device")) or ""
            it.emit(ScriptEvent("autocast", thing.place, item.id, None, what, values))
