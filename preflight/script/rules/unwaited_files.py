"""Rule R422: what all ranks read while rank 0 may still write it."""

import ast
from collections.abc import Iterator
from functools import partial

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import BY_RANK, RANK_0, SPAWNED
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.files import tests_around
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import ExternalName, Func, Value
from preflight.script.values.operations import as_text, is_by_rank

_MEETS = (
    *("collective", "exchange", "buffers", "step", "scaler step", "unknown step", "train", "evaluate"),
    *("process group", "accelerator", "ddp", "prepare", "prepared", "lightning"),
)
"""Events at which ranks meet, or may."""
_READS = ("weights only", "load", "read")
_WAITS = re.compile(r"(?i)barrier|synchroni[sz]e|wait|sleep|rendezvous|sync_all|dist_sync")
_SHARED = frozenset(
    {"args", "self", "cfg", "config", "opt", "opts", "hparams", "conf", "os", "osp", "Path", "path"}
)
"""Names that mean the same in all functions of most scripts."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Note of what rank 0 alone has written since the ranks last met."""

    path: str


@dataclass(frozen=True, slots=True)
class _WrittenIn:
    """Note of the function around such a place."""

    path: str
    function: int | None


@rule("R422", "write", "early write", *_READS, *_MEETS)
def read_before_rank_0_has_written(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """All ranks read a file that rank 0 alone has just written, and none waits for it.

    The others come to the line while rank 0 still writes, or before: the file is missing, torn
    ("PytorchStreamReader failed", "unexpected EOF") or that of an earlier epoch, and the ranks train on
    with unlike weights. A barrier of all ranks between the two, or any other exchange, avoids it.
    Source: torch's DDP tutorial, "Save and Load Checkpoints", which waits so.
    """
    call = event.call
    if it.target.processes == 1:
        return
    if event.name in _MEETS:
        for key in [key for key in it.notes if isinstance(key, (_Written, _WrittenIn))]:
            del it.notes[key]
    elif call is None:
        return
    elif event.name in ("write", "early write"):
        if RANK_0 in it.contexts and event.what in ("file", "result", "download"):
            path = _name_path(it, call, event.values["path"])
            it.note(_Written(path), event.place)
            it.note(_WrittenIn(path, it.stack[-1] if it.stack else None), event.place)
    elif RANK_0 not in it.contexts and BY_RANK not in it.contexts:
        path = _name_path(it, call, call.first if event.name == "load" else event.values["path"])
        places = it.notes.get(_Written(path)) if path else None
        asks = (
            any(test is None or "exists" in unparse(test) for test in tests_around(it, call.node))
            if places
            else False
        )
        if places and not asks and not _waits(it, path):
            message = "rank 0 alone has written this, and nothing has the others wait until it is whole"
            fix = "a barrier of all ranks between the two: torch.distributed.barrier()"
            yield RuleHit(event.place, message, fix, Level.WARNING, tuple(places[-1:]))


def _name_path(it: Interpreter, call: Call, path: Value) -> str:
    """Return what a path is called: its text, or the expression; "" for one that may be another elsewhere."""
    if is_by_rank(path):
        return ""
    text = as_text(path)
    if text is not None:
        return f"spawned:{text}" if SPAWNED in it.contexts else text  # behind a spawn all has ended
    pairs = [*zip(call.node.args, call.args, strict=False)]
    pairs += [
        (word.value, call.kwargs[word.arg])
        for word in call.node.keywords
        if word.arg and word.arg in call.kwargs
    ]
    given = [node for node, value in pairs if value is path and not isinstance(node, ast.Starred)]
    node = given[-1] if given else None
    if node is None or isinstance(node, ast.Constant):
        return ""
    names = {part.id for part in walk(node) if isinstance(part, ast.Name)}
    alike = all(name in _SHARED or name.isupper() for name in names)
    spawned = "spawned:" if SPAWNED in it.contexts else ""
    return f"{spawned}{unparse(node)}" if alike else f"{it.frame}:{unparse(node)}"


def _is_read(it: Interpreter, func: ast.expr) -> bool:
    """Whether a call is one whose events are known: of torch or of the script."""
    value = it.evaluate(func) if isinstance(func, (ast.Name, ast.Attribute)) else None
    return isinstance(value, Func) or (isinstance(value, ExternalName) and value.name.startswith("torch."))


def _waits(it: Interpreter, path: str) -> bool:
    """Whether a function that writes or reads the file calls what waits by its name, or asks for the file."""
    keys = [key.function for key in it.notes if isinstance(key, _WrittenIn) and key.path == path]
    scopes = [it.functions[key].node for key in keys if key is not None and key in it.functions]
    for scope in (*scopes, it.scope):
        nodes = it.sources.parser.nodes(scope)
        calls = [node.func for node in nodes if type(node) is ast.Call and _WAITS.search(get_last_name(node))]
        if not all(map(partial(_is_read, it), calls)) or any(
            type(node) is ast.While and "exists" in unparse(node.test) for node in nodes
        ):
            return True
    return False
