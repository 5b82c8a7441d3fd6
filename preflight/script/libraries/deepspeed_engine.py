"""deepspeed.initialize(): an engine that places the model, scales the loss and saves what all ranks hold."""

from preflight.script.interpreter.calls import taint_arguments
from preflight.script.interpreter.config_files import load_config
from preflight.script.interpreter.contexts import GATHERED
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter, MethodModel
from preflight.script.interpreter.values import (
    NONE,
    TRUE,
    UNKNOWN,
    Const,
    Device,
    Element,
    HeapObject,
    Map,
    RankValue,
    Ref,
    Seq,
    Value,
    list_values,
)
from preflight.script.libraries.collectives import emit_collective, model_method


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
    engine = HeapObject(
        "engine", call.place, {"module": model, "device": Device("cuda", of_rank=True), **ranks}
    ).with_changes(parts=Const(_is_of_parts(it, given)))
    return Seq((it.allocate(engine), UNKNOWN, UNKNOWN, UNKNOWN))


def _is_of_parts(it: Interpreter, given: Value) -> bool:
    """Whether a config is that of ZeRO-3, where each rank holds a part of every weight."""
    config = given if isinstance(given, Map) else load_config(it, given)
    zero = config.get("zero_optimization") if isinstance(config, Map) else None
    return isinstance(zero, Map) and zero.get("stage") == Const(3)


def _forward(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """engine(batch): under ZeRO-3 all ranks gather the weights of each layer."""
    if it.attr(owner, "parts") == TRUE and GATHERED not in it.contexts:
        emit_collective(it, call, "forward")
    return UNKNOWN


def _backward(it: Interpreter, _owner: Ref | Element, call: Call) -> Value:
    it.library.note_raw_backward(it, call)
    return UNKNOWN


CALLS: dict[str, CallModel] = {"deepspeed.initialize": _make_engine}

METHODS: dict[tuple[str, str], MethodModel] = {
    ("engine", "backward"): _backward,
    ("engine", "__call__"): _forward,
    **{
        ("engine", name): model_method(name)
        for name in ("save_checkpoint", "load_checkpoint", "save_16bit_model", "save_fp16_model")
    },
}
