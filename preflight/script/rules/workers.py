"""Rule D208: what the worker processes of a DataLoader do with CUDA."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.classes import find_method
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.models import as_device
from preflight.script.rules.own_measures import list_form_nodes
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Const, Device, Func, Ref, Value
from preflight.script.values.constants import NONE, ON_GPU, UNKNOWN
from preflight.script.values.operations import list_values

_STARTS_ANEW = re.compile(r"forkserver|[\"']spawn[\"']")
_MAX_DEPTH = 2  # functions of the script in one another
_BRANCHES = (ast.If, ast.IfExp, ast.Try, ast.Lambda)


@rule("D208", "loader", "trainer")
def cuda_in_a_worker(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A DataLoader's worker processes use CUDA: in __getitem__ or collate_fn, with num_workers above 0.

    Workers are forked from a process that has used CUDA: "Cannot re-initialize CUDA in forked subprocess".
    Where none has, each worker opens a context of its own on the first GPU.
    Source: torch's notes on multiprocessing; torch/cuda/__init__.py, _lazy_init.
    """
    call = event.call
    if call is None or it.target.capability is None:
        return
    if event.name == "loader":
        workers, collate = it.attr(event.ref, "num_workers"), call.get("collate_fn", 6)
        dataset, word = it.attr(event.ref, "dataset"), "num_workers"
        if call.get("multiprocessing_context") not in (None, NONE):
            return
    else:
        workers = it.attr(event.values["args"], "dataloader_num_workers")
        collate, dataset = call.get("data_collator", 2), call.get("train_dataset", 3) or UNKNOWN
        word = "dataloader_num_workers"
    counts = [item.value for item in list_values(workers) if isinstance(item, Const)]
    if not counts or not all(isinstance(each, int) and each for each in counts):
        return
    functions = [
        found
        for owner, names in ((collate, ("__call__", "torch_call")), (dataset, ("__getitem__", "__iter__")))
        for item in list_values(owner or NONE)
        for found in ([item] if isinstance(item, Func) else [find_method(it, item, name) for name in names])
        if found is not None
    ]
    for function in functions:
        for node, path in _uses_of_cuda(it, function, _MAX_DEPTH):
            if not it.sources.mention(_STARTS_ANEW):
                source = it.sources.get(path)
                place = source.place(node) if source else event.place
                message = f"this uses CUDA in a worker process of the DataLoader, which {word}= starts"
                fix = "leave it on the CPU, and move the batch to the GPU in the loop"
                yield RuleHit(place, message, fix, Level.WARNING, (event.place,))


def _uses_of_cuda(it: Interpreter, function: Func, depth: int) -> Iterator[tuple[ast.AST, str]]:
    """Yield where a function of the script puts something on a GPU, in no branch of a condition."""
    info = it.functions.get(function.key)
    if info is None:
        return
    nodes = it.sources.parser.nodes(info.node)
    if any(getattr(node, "attr", getattr(node, "id", "")) == "get_worker_info" for node in nodes):
        return
    around = [node for node in nodes[1:] if isinstance(node, _BRANCHES)]
    branches = {id(part) for node in around for part in it.sources.parser.nodes(node)[1:]}
    forms = list_form_nodes(nodes)
    own = {node.id for node in nodes if type(node) is ast.Name and type(node.ctx) is ast.Store}
    own |= {node.arg for node in nodes if type(node) is ast.arg}
    with it.enter_source(info.source, function.frame):
        for node in nodes:
            if id(node) in branches or not isinstance(node, (ast.Call, ast.Attribute)):
                continue
            if _is_on_gpu(it, node, function, own) and id(node) not in forms:
                yield node, info.source.path
                return
            if depth and isinstance(node, ast.Call):
                other = _called_function(it, node, function, own)
                yield from _uses_of_cuda(it, other, depth - 1) if other else ()


def _is_on_gpu(it: Interpreter, node: ast.Call | ast.Attribute, function: Func, own: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return isinstance(node.ctx, ast.Load) and _value(it, node, function, own) is ON_GPU
    called = getattr(node.func, "attr", "")
    if called == "cuda" and isinstance(node.func, ast.Attribute):
        return not node.args or getattr(node.func.value, "id", "") != "torch"
    given = [*node.args[:1], *(word.value for word in node.keywords)] if called == "to" else []
    given += [word.value for word in node.keywords if word.arg == "device"]
    for part in given:
        value = _value(it, part, function, own)
        devices = [
            as_device(item) for item in list_values(value) if not isinstance(item, Const) or item.value
        ]
        if isinstance(part, ast.Constant) and not isinstance(part.value, str):
            continue
        if devices and all(isinstance(item, Device) and item.kind == "cuda" for item in devices):
            return True
    return False


def _value(it: Interpreter, node: ast.expr, function: Func, own: set[str]) -> Value:
    """Return what a name, an attribute of self or a text is for all calls of a function."""
    if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id not in own):
        return it.evaluate(node)
    if isinstance(node, ast.JoinedStr):  # f"cuda:{rank}", of whatever rank
        first = getattr(node.values[0], "value", None) if node.values else None
        return Const("cuda") if str(first).startswith("cuda") else UNKNOWN
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
        return it.attr(function.bound, node.attr) if isinstance(function.bound, Ref) else UNKNOWN
    return UNKNOWN


def _called_function(it: Interpreter, node: ast.Call, function: Func, own: set[str]) -> Func | None:
    func = node.func
    if isinstance(func, ast.Attribute) and getattr(func.value, "id", "") == "self":
        return find_method(it, function.bound or NONE, func.attr)
    value = it.lookup(func.id) if isinstance(func, ast.Name) and func.id not in own else UNKNOWN
    return value if isinstance(value, Func) else None
