"""torch.distributed, and what a script starts: process groups, wrappers of models, threads, processes."""

import ast
from collections.abc import Iterator
from dataclasses import replace

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
from preflight.script.libraries.collectives import PACKAGES, has_buffers
from preflight.script.libraries.models import make_model, parse_dtype
from preflight.script.syntax_trees import walk
from preflight.script.values import (
    Const,
    Device,
    Element,
    ExternalName,
    Func,
    Map,
    RankValue,
    Ref,
    Seq,
    Unknown,
    Value,
)
from preflight.script.values.constants import FALSE, NONE, OF_LAUNCH, OF_NODE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, is_by_rank, join, list_values

FLAT = "a plugin flattens parameters"  # note of where one of accelerate does
OF_ONE = "one process is started"  # note of the last spawn(), where it starts no more


def init_process_group(it: Interpreter, call: Call) -> Value:
    """torch.distributed.init_process_group(...): with a device_id the rank has its device."""
    if call.get("device_id") is not None:
        it.state.device_set = True
    it.state.grouped = True
    backend = as_text(call.get("backend", 0))
    it.emit(call.event("process group", None, backend or ""))
    return NONE


def _is_initialized(it: Interpreter, _call: Call) -> Value:
    """torch.distributed.is_initialized(): after a group was made, in a launch of several ranks."""
    return TRUE if it.state.grouped and (it.target.processes or 1) > 1 else UNKNOWN


def _get_rank(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("asks group"))
    return RankValue(of=OF_LAUNCH)


def _get_world_size(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("asks group"))
    return Const(it.target.world)


def _destroy(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("group ends"))
    return NONE


def data_parallel(it: Interpreter, call: Call) -> Value:
    """torch.nn.DataParallel(model): the same parameters."""
    model = call.get("module", 0) or UNKNOWN
    for item in list_values(model):
        if isinstance(item, Ref) and it.kind(item) == "model":
            it.change(item.id, inside=TRUE)
    it.emit(call.event("data parallel", model.id if isinstance(model, Ref) else None))
    return model


def _wrapped(it: Interpreter, call: Call) -> Value:
    """Return what a wrapper gets: a model, whatever made it."""
    model = call.get("module", 0) or UNKNOWN
    return it.allocate(make_model(call.place, UNKNOWN)) if type(model) is Unknown else model


def ddp(it: Interpreter, call: Call, *, buffers: bool = True) -> Value:
    """DistributedDataParallel(model, device_ids=[...]): the same parameters. apex's broadcasts no buffers."""
    model = _wrapped(it, call)
    ids = call.get("device_ids", 1) or NONE
    it.state.wrapped = True
    for item in list_values(model):
        if isinstance(item, Ref) and it.kind(item) == "model":
            it.change(item.id, wrapped=TRUE, inside=TRUE)
            if (
                buffers
                and call.get("broadcast_buffers", 4) in (None, TRUE)
                and not call.open
                and has_buffers(it, item.id)
            ):
                it.change(item.id, buffers_of_all=TRUE)
    it.emit(call.event("ddp", model.id if isinstance(model, Ref) else None, ids=ids))
    return join(Ref(item.id, shared=True) if isinstance(item, Ref) else item for item in list_values(model))


def fsdp(it: Interpreter, call: Call) -> Value:
    """FSDP keeps float32 masters of its own, and gathers each layer's weights of all ranks in forward()."""
    model = _wrapped(it, call)
    it.state.wrapped = True
    _note_sharding_dtype(it, call)
    if isinstance(model, Ref):
        it.change(model.id, sharded=TRUE, forward_of_all=Const(not _keeps_whole(call)))
    it.emit(call.event("sharded", model.id if isinstance(model, Ref) else None))
    return model


def _gathering(it: Interpreter, call: Call) -> Value:
    """FullyShardedDataParallel(model): its state_dict() gathers the weights of all ranks."""
    model = fsdp(it, call)
    if isinstance(model, Ref) and not _keeps_whole(call):
        it.change(model.id, gathers=TRUE)
    return model


def _keeps_whole(call: Call) -> bool:
    """Whether each rank may keep all of the weights, as under DistributedDataParallel."""
    given = call.get("sharding_strategy", 2) or NONE
    return any(
        isinstance(item, ExternalName) and item.name.endswith(".NO_SHARD") for item in list_values(given)
    )


def _sharding_dtype(_it: Interpreter, call: Call) -> Value:
    """FSDP's MixedPrecision(param_dtype, ...), MixedPrecisionPolicy of fully_shard: what ranks compute in."""
    return parse_dtype(call.get("param_dtype", 0), call.get_place("param_dtype"))


def _note_sharding_dtype(it: Interpreter, call: Call) -> Value:
    """Note the policies that FSDP, or what sets it up, takes: others a script only has to choose from."""
    for name in ("mixed_precision", "mp_policy", "mixed_precision_policy"):
        given = [item for item in list_values(call.kwargs.get(name, NONE)) if item != NONE]
        if len(given) == 1:  # of several, a configuration or the GPU chooses
            it.emit(call.event("sharding dtype", dtype=given[0]))
    return UNKNOWN


def _plugin(it: Interpreter, call: Call) -> Value:
    """Accelerate's FullyShardedDataParallelPlugin(use_orig_params=False) flattens parameters."""
    if call.get("use_orig_params") == FALSE:
        it.note(FLAT, call.get_place("use_orig_params"))
    return _note_sharding_dtype(it, call)


def spawn(it: Interpreter, call: Call) -> Value:
    """torch.multiprocessing.spawn(f, args, nprocs=1): f is called with a rank before its arguments."""
    alone = call.get("nprocs", 2) or (UNKNOWN if call.open else Const(1))
    written = [word.value for word in call.node.keywords if word.arg == "nprocs"] or call.node.args[2:3]
    counted = written and not isinstance(written[0], ast.Constant)  # by what the group is made of, too
    it.notes[OF_ONE] = [call.place] if alone == Const(1) and not counted else []
    return _start_ranks(it, call, call.get("fn", 0), call.get("args", 1), RankValue())


def _launch(it: Interpreter, call: Call) -> Value:
    """detectron2's launch(main, num_gpus_per_machine, ...): each rank has its group and its device."""
    dead = it.state.dead
    _start_ranks(it, call, call.get("main_func", 0), call.get("args", 5))
    it.state.dead = dead
    return UNKNOWN


def _start_ranks(
    it: Interpreter, call: Call, func: Value | None, args: Value | None, *first: RankValue
) -> Value:
    """Read what each rank calls that the script starts; without a rank of its own it has a group already."""
    if isinstance(func, (Func, Ref)):
        depth = len(it.contexts)
        it.contexts += [SPAWNED, SPAWNED_RANK]
        if not first:
            it.state.device_set = it.state.grouped = True
            it.emit(call.event("process group", None, "nccl"))
        given = (*first, *(args.items if isinstance(args, Seq) else ()))
        call_value(it, func, call.with_arguments(*given))
        del it.contexts[depth:]
    return UNKNOWN


def _ray_model(it: Interpreter, call: Call) -> Value:
    """ray.train.torch.prepare_model(model): in the group of Ray, on its GPU, in DDP."""
    it.state.device_set = it.state.grouped = True
    return ddp(it, call.with_arguments(call.get("model", 0) or UNKNOWN))


def _init_distributed_device(it: Interpreter, call: Call) -> Value:
    """timm.utils.init_distributed_device(args): makes the group, sets the device, notes both in args."""
    it.state.device_set = True
    device = Device("cuda", of_rank=True)
    given = call.get("args", 0)
    for item in list_values(given) if given is not None else ():
        if isinstance(item, Ref):
            it.change(item.id, device=device, rank=RankValue(), local_rank=RankValue(), distributed=TRUE)
    it.emit(call.event("set device", device=device))
    return device


def _wrap(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    """A subclass wraps where the script makes an object of it."""
    it.change(ref.id, module=it.library.call(it, name, replace(call, place=it.state.heap[ref.id].place)))


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


_WRAPPERS = (
    *(f"torch.nn{of}.DataParallel" for of in ("", ".parallel")),
    *("torch.nn.parallel.DistributedDataParallel", "torch.distributed.fsdp.FullyShardedDataParallel"),
)
"""What a class of the script may inherit; its constructor takes the model first."""

CALLS: dict[str, CallModel] = {
    "torch.distributed.init_process_group": init_process_group,
    "torch.nn.DataParallel": data_parallel,
    "torch.nn.parallel.DataParallel": data_parallel,
    "torch.nn.parallel.DistributedDataParallel": ddp,
    "torch.nn.parallel.distributed.DistributedDataParallel": ddp,
    "torch.distributed.fsdp.FullyShardedDataParallel": _gathering,
    "torch.distributed.fsdp.fully_shard": fsdp,
    "torch.distributed._composable.fsdp.fully_shard": fsdp,
    "torch.distributed.fsdp.MixedPrecision": _sharding_dtype,
    "torch.distributed.fsdp.MixedPrecisionPolicy": _sharding_dtype,
    "accelerate.FullyShardedDataParallelPlugin": _plugin,
    "accelerate.utils.FullyShardedDataParallelPlugin": _plugin,
    "torch.distributed.get_node_local_rank": lambda _it, _call: RankValue(of=OF_NODE),
    **{
        f"{package}.{name}": model
        for package in PACKAGES
        for name, model in (
            ("get_rank", _get_rank),
            ("get_world_size", _get_world_size),
            ("destroy_process_group", _destroy),
            ("is_initialized", _is_initialized),
        )
    },
    "torch.multiprocessing.spawn": spawn,
    **dict.fromkeys(("detectron2.engine.launch", "detectron2.engine.launch.launch"), _launch),
    "timm.utils.init_distributed_device": _init_distributed_device,
    "ray.train.torch.prepare_model": _ray_model,
    **{
        f"{name}.get_context": lambda _it, _call: ExternalName("torch.multiprocessing")
        for name in ("multiprocessing", "torch.multiprocessing")
    },
}

CLASSES: dict[str, str] = {
    **dict.fromkeys(_WRAPPERS, "wrapper"),
    **dict.fromkeys(("threading.Thread", "threading.Timer", *_PROCESSES), "worker"),
    "concurrent.futures.ThreadPoolExecutor": "executor",
}

CONSTRUCT: dict[str, ConstructorModel] = {"wrapper": _wrap, "worker": _worker}

METHODS: dict[tuple[str, str], MethodModel] = {("worker", "start"): _start, ("executor", "submit"): _submit}
