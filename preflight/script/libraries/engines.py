"""Engines of DeepSpeed and PyTorch-Ignite, and Horovod, whose optimizer exchanges the gradients."""

from preflight.script.interpreter.calls import call_value, taint_arguments
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import CallModel, ConstructorModel, Interpreter, MethodModel
from preflight.script.libraries.collectives import model_call, model_method
from preflight.script.libraries.devices import note_placed
from preflight.script.libraries.weight_shards import PLUGINS, is_of_parts, note_use
from preflight.script.values import Const, Device, Dtype, Element, RankValue, Ref, Seq, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, list_values


def _make_engine(it: Interpreter, call: Call) -> Value:
    """Return what deepspeed.initialize(model=...) gives: the engine, an optimizer, a loader, a scheduler."""
    model = call.get("model", 1) or UNKNOWN
    for item in list_values(model):
        if isinstance(item, Ref) and it.kind(item) == "model":
            it.change(item.id, sharded=TRUE)
            it.emit(call.event("prepare", item.id))
    given = call.get("config") or call.get("config_params") or NONE
    it.emit(call.event("sharded", config=given))
    it.state.wrapped = True
    it.state.device_set = True
    taint_arguments(it, call)
    ranks = dict.fromkeys(("local_rank", "global_rank"), RankValue())
    parts = Const(is_of_parts(it, given))
    for item in list_values(model):
        if isinstance(item, Ref) and it.kind(item) == "model":
            it.change(item.id, parts=parts)
    engine = HeapObject(
        "engine", call.place, {"module": model, "device": Device("cuda", of_rank=True), **ranks}
    ).with_changes(parts=parts)
    return Seq((it.allocate(engine), UNKNOWN, UNKNOWN, UNKNOWN))


def _forward(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """engine(batch): under ZeRO-3 all ranks gather the weights of each layer."""
    note_use(it, owner, call, "forward")
    return UNKNOWN


def _backward(it: Interpreter, _owner: Ref | Element, call: Call) -> Value:
    it.library.note_raw_backward(it, call)
    return UNKNOWN


def _init(it: Interpreter, call: Call) -> Value:
    """hvd.init(): the ranks have a group from then on, and no device of their own."""
    it.state.grouped = True
    it.emit(call.event("process group"))
    return NONE


def _optimizer(it: Interpreter, call: Call) -> Value:
    """hvd.DistributedOptimizer(optimizer): its step() takes the gradients of all ranks."""
    it.state.wrapped = True
    return call.get("optimizer", 0) or UNKNOWN


_COLLECTIVES = (
    *("allreduce", "allreduce_", "allgather", "broadcast", "broadcast_", "alltoall", "reducescatter"),
    *("broadcast_parameters", "broadcast_optimizer_state", "broadcast_object", "allgather_object", "barrier"),
)


def _engine(it: Interpreter, ref: Ref, _name: str, call: Call) -> None:
    it.change(ref.id, function=call.get("process_function", 0) or UNKNOWN)


def _trainer(it: Interpreter, call: Call) -> Value:
    """create_supervised_trainer(model, optimizer, loss_fn, device, ..., amp_mode=, scaler=)."""
    note_placed(it, call, call.get("device", 3), "device")
    scaler = call.get("scaler") or (UNKNOWN if call.open else FALSE)
    if scaler == TRUE:
        scaler = it.library.call(it, "torch.amp.GradScaler", call.with_arguments())
    optimizer, amp = call.get("optimizer", 1) or UNKNOWN, call.get("amp_mode") or NONE
    spot = Dtype("at", call.get_place("amp_mode"))
    half = {"optimizer": optimizer, "scaler": scaler, "amp": amp, "at": spot}
    return it.allocate(HeapObject("ignite engine", call.place, half))


def _run(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """engine.run(data, max_epochs): the function of each batch; twice, as a loop's body is read."""
    thing = it.thing(owner)
    if thing is None:
        return UNKNOWN
    outer = it.drawn
    it.loop_depth += 1
    batch = it.library.element(it, call.get("data", 0) or UNKNOWN)
    for _ in range(2):
        if "function" in thing.attrs:
            call_value(it, thing.get("function"), call.with_arguments(owner, batch))
        else:
            _train(it, thing, call)
    it.loop_depth -= 1
    it.drawn = outer
    return UNKNOWN


def _train(it: Interpreter, thing: HeapObject, call: Call) -> None:
    spot, scaler, optimizer = thing.get("at"), thing.get("scaler"), thing.get("optimizer")
    if as_text(thing.get("amp")) == "amp" and isinstance(spot, Dtype) and spot.place:
        half: dict[str, Value] = {"dtype": Dtype("float16", spot.place), "enabled": TRUE}
        it.emit(ScriptEvent("autocast", spot.place, None, None, "cuda", half))
    for item in list_values(optimizer):
        if isinstance(item, Ref):
            it.library.method(it, item, "zero_grad", call.with_arguments())
    if isinstance(scaler, Ref):
        it.library.method(it, scaler, "scale", call.with_arguments(UNKNOWN))
        it.library.method(it, scaler, "step", call.with_arguments(optimizer))
        it.library.method(it, scaler, "update", call.with_arguments())
    elif scaler in (FALSE, NONE):
        it.library.note_raw_backward(it, call.with_arguments())
        for item in list_values(optimizer):
            if isinstance(item, Ref):
                it.library.method(it, item, "step", call.with_arguments())


def _auto_model(it: Interpreter, call: Call) -> Value:
    """ignite.distributed.auto_model(model): on the rank's device, in DistributedDataParallel."""
    it.state.wrapped = True
    return call.get("model", 0) or UNKNOWN


CALLS: dict[str, CallModel] = {
    **PLUGINS,
    "deepspeed.initialize": _make_engine,
    "horovod.torch.init": _init,
    "horovod.torch.DistributedOptimizer": _optimizer,
    **{
        f"horovod.torch.{name}": lambda _it, _call: RankValue()
        for name in ("rank", "local_rank", "cross_rank")
    },
    "horovod.torch.size": lambda it, _call: Const(it.target.world),
    **{f"horovod.torch.{name}": model_call(name) for name in _COLLECTIVES},
    "ignite.engine.create_supervised_trainer": _trainer,
    "ignite.engine.create_supervised_evaluator": lambda _it, _call: UNKNOWN,
    "ignite.distributed.auto_model": _auto_model,
    "ignite.distributed.auto_optim": lambda _it, call: call.get("optimizer", 0) or UNKNOWN,
}

CLASSES = dict.fromkeys(("ignite.engine.Engine", "ignite.engine.engine.Engine"), "ignite engine")

CONSTRUCT: dict[str, ConstructorModel] = {"ignite engine": _engine}

METHODS: dict[tuple[str, str], MethodModel] = {
    ("engine", "backward"): _backward,
    ("engine", "__call__"): _forward,
    **{
        ("engine", name): model_method(name)
        for name in ("save_checkpoint", "load_checkpoint", "save_16bit_model", "save_fp16_model")
    },
    ("ignite engine", "run"): _run,
}
