"""Schedules of a learning rate, and gradients that an optimizer drops."""

from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter, MethodModel
from preflight.script.interpreter.values import NONE, UNKNOWN, Const, Element, HeapObject, Ref, Value, heap_id

_HORIZONS = {
    "CosineAnnealingLR": ("T_max", 1),
    "OneCycleLR": ("total_steps", 2),
    "LinearLR": ("total_iters", 3),
    "PolynomialLR": ("total_iters", 1),
    "get_scheduler": ("num_training_steps", 3),
    "get_polynomial_decay_schedule_with_warmup": ("num_training_steps", 2),
    "get_linear_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_schedule_with_warmup": ("num_training_steps", 2),
    "get_cosine_with_hard_restarts_schedule_with_warmup": ("num_training_steps", 2),
}
"""Which argument says over how many steps a schedule goes, by the name of what makes it."""


def schedule_of(it: Interpreter, call: Call, name: str) -> Value:
    """torch.optim.lr_scheduler.StepLR(optimizer, ...), transformers.get_scheduler("cosine", optimizer)."""
    given = (item for item in (*call.args, *call.kwargs.values()) if it.kind(item) == "optimizer")
    kind = (call.get("name", 0) or UNKNOWN) if name == "get_scheduler" else Const(name)
    steps = call.get(*_HORIZONS[name]) if name in _HORIZONS else None
    attrs = {"optimizer": next(given, UNKNOWN), "kind": kind, "steps": steps or NONE}
    return it.new(HeapObject("scheduler", call.place, attrs))


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
