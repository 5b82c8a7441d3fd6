"""Threads and processes that a script starts: the function of one is read where start() is called."""

import ast
from collections.abc import Iterator

from preflight.script.interpreter.branch_conditions import SPAWNED, SPAWNED_RANK
from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.classes import find_method
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import (
    CallModel,
    ConstructorModel,
    Interpreter,
    MethodModel,
    unwrap_value,
)
from preflight.script.interpreter.rank_values import RANKS
from preflight.script.interpreter.values import (
    NONE,
    UNKNOWN,
    Const,
    Element,
    ExternalName,
    Func,
    HeapObject,
    Map,
    RankValue,
    Ref,
    Seq,
    Value,
    is_by_rank,
    list_values,
)
from preflight.script.syntax_trees import walk

_PROCESSES = ("multiprocessing.Process", "torch.multiprocessing.Process", "multiprocessing.context.Process")
_OF_PROCESSES = frozenset(map(Const, _PROCESSES))
_LOOPS = (ast.For, ast.ListComp, ast.GeneratorExp)
_QUEUES = frozenset({"put", "put_nowait", "append"})


def _worker(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    """Thread(target=f, args=(...)), Process(...): what a loop counts over differs from process to process."""
    given, written = call.get("args", 3), _written(call)
    args = given.items if isinstance(given, Seq) else ()
    if name in _PROCESSES and len(written) == len(args):
        counted = set(_counted(it, call))
        args = tuple(
            RankValue() if value is UNKNOWN and getattr(node, "id", "") in counted else value
            for value, node in zip(args, written, strict=True)
        )
    it.change(
        ref.id, target=call.get("target", 1) or NONE, args=Seq(args), kwargs=call.get("kwargs", 4) or NONE
    )


def _written(call: Call) -> list[ast.expr]:
    nodes = [word.value for word in call.node.keywords if word.arg == "args"]
    return nodes[0].elts if nodes and isinstance(nodes[0], (ast.Tuple, ast.List)) else []


def _counted(it: Interpreter, call: Call) -> Iterator[str]:
    """Yield the names that the loops around a call give what they go over."""
    counts, line = it.sources.parser.find(_counts, it.source.tree), call.node.lineno
    yield from (name for first, last, name in counts if first <= line <= last)


def _counts(nodes: list[ast.AST]) -> list[tuple[int, int, str]]:
    """Return the first and last line of each loop with each name that it gives what it goes over."""
    found = []
    for node in nodes:
        if isinstance(node, _LOOPS):
            targets = (
                [node.target] if isinstance(node, ast.For) else [item.target for item in node.generators]
            )
            names = [name for target in targets for name in walk(target) if isinstance(name, ast.Name)]
            found += [(node.lineno, node.end_lineno or node.lineno, name.id) for name in names]
    return found


def _start(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Read what runs in the thread. A loader that it empties into a queue is drawn from by who reads that."""
    thing = it.thing(owner)
    outer, dead, drawn = it.worker_draws, it.state.dead, it.drawn
    it.worker_draws, depth = [], len(it.contexts)
    it.contexts += _places(thing) if thing is not None else []
    run = find_method(it, owner, "run")
    if run is not None:
        call_value(it, run, unwrap_value(it, call.node, ()))
    else:
        args, named = (thing.get("args"), thing.get("kwargs")) if thing else (NONE, NONE)
        items = args.items if isinstance(args, Seq) else ()
        words = {str(key): value for key, value in named.items} if isinstance(named, Map) else {}
        for target in list_values(thing.get("target")) if thing else ():
            if isinstance(target, (Func, Ref)):
                call_value(it, target, Call(call.node, call.place, items, words, {}, open=False))
    found, it.worker_draws, it.state.dead = it.worker_draws, outer, dead
    del it.contexts[depth:]
    functions = [run, *(list_values(thing.get("target")) if thing else ())]
    fills = any(_fills_queue(it, func) for func in functions if isinstance(func, Func))
    it.drawn = (*drawn, *dict.fromkeys(found)) if fills else drawn
    return NONE


def _places(worker: HeapObject) -> list[str]:
    """Return where the function of a worker runs: one of several processes is given its rank, or has one."""
    if worker.get("__name__") not in _OF_PROCESSES and "__class__" not in worker.attrs:
        return []
    given = worker.get("args")
    ranked = is_by_rank(given) or not RANKS.isdisjoint(worker.attrs)
    return [SPAWNED, SPAWNED_RANK] if ranked else [SPAWNED]


def _fills_queue(it: Interpreter, func: Func) -> bool:
    info = it.functions.get(func.key)
    return info is not None and any(
        isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _QUEUES for node in walk(info.node)
    )


def _submit(it: Interpreter, _owner: Ref | Element, call: Call) -> Value:
    """executor.submit(f, x): f(x)."""
    if call.args and isinstance(call.args[0], (Func, Ref)):
        dead = it.state.dead
        given = Call(call.node, call.place, call.args[1:], call.kwargs, call.places, open=call.open)
        call_value(it, call.args[0], given)
        it.state.dead = dead
    return UNKNOWN


CLASSES = {
    **dict.fromkeys(("threading.Thread", "threading.Timer", *_PROCESSES), "worker"),
    "concurrent.futures.ThreadPoolExecutor": "executor",
}
CONSTRUCT: dict[str, ConstructorModel] = {"worker": _worker}
CALLS: dict[str, CallModel] = {
    f"{name}.get_context": lambda _it, _call: ExternalName("torch.multiprocessing")
    for name in ("multiprocessing", "torch.multiprocessing")
}
METHODS: dict[tuple[str, str], MethodModel] = {("worker", "start"): _start, ("executor", "submit"): _submit}
