"""Schedules of a learning rate, and gradients that an optimizer drops."""

from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter, MethodModel
from preflight.script.interpreter.values import NONE, UNKNOWN, Element, HeapObject, Ref, Value, heap_id


def schedule_of(it: Interpreter, call: Call) -> Value:
    """torch.optim.lr_scheduler.StepLR(optimizer, ...), transformers.get_scheduler("cosine", optimizer)."""
    given = (item for item in (*call.args, *call.kwargs.values()) if it.kind(item) == "optimizer")
    return it.new(HeapObject("scheduler", call.place, {"optimizer": next(given, UNKNOWN)}))


def _step(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.emit(call.event("schedule", heap_id(owner), optimizer=it.attr(owner, "optimizer")))
    return NONE


def _zero_grad(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.emit(call.event("zero grad", heap_id(owner)))
    return NONE


METHODS: dict[tuple[str, str], MethodModel] = {
    ("scheduler", "step"): _step,
    ("optimizer", "zero_grad"): _zero_grad,
}
