"""PyTorch-Ignite: engines, which run the loop with the script's function or one of their own."""

from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import CallModel, ConstructorModel, Interpreter, MethodModel
from preflight.script.interpreter.values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Dtype,
    Element,
    HeapObject,
    Ref,
    Value,
    as_text,
    list_values,
)
from preflight.script.libraries.devices import note_placed


def _engine(it: Interpreter, ref: Ref, _name: str, call: Call) -> None:
    it.change(ref.id, function=call.get("process_function", 0) or UNKNOWN)


def _trainer(it: Interpreter, call: Call) -> Value:
    """create_supervised_trainer(model, optimizer, loss_fn, device, ..., amp_mode=, scaler=)."""
    note_placed(it, call, call.get("device", 3), "device")
    scaler = call.get("scaler") or (UNKNOWN if call.open else FALSE)
    if scaler == TRUE:
        scaler = it.library.call(it, "torch.amp.GradScaler", call.with_arguments())
    optimizer, amp = call.get("optimizer", 1) or UNKNOWN, call.get("amp_mode") or NONE
    half = {
        "optimizer": optimizer,
        "scaler": scaler,
        "amp": amp,
        "at": Dtype("at", call.get_place("amp_mode")),
    }
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
    "ignite.engine.create_supervised_trainer": _trainer,
    "ignite.engine.create_supervised_evaluator": lambda _it, _call: UNKNOWN,
    "ignite.distributed.auto_model": _auto_model,
    "ignite.distributed.auto_optim": lambda _it, call: call.get("optimizer", 0) or UNKNOWN,
}

CLASSES: dict[str, str] = {
    "ignite.engine.Engine": "ignite engine",
    "ignite.engine.engine.Engine": "ignite engine",
}

CONSTRUCT: dict[str, ConstructorModel] = {"ignite engine": _engine}

METHODS: dict[tuple[str, str], MethodModel] = {("ignite engine", "run"): _run}
