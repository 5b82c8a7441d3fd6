"""Schedules of a learning rate, and gradients that an optimizer drops."""

import ast

from preflight import regex as re
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter, MethodModel
from preflight.script.interpreter.values import NONE, UNKNOWN, Const, Element, HeapObject, Ref, Value, get_id

_NAMED = re.compile(r"(?!.*(?:warm|last_))[A-Za-z_]")


def schedule_of(it: Interpreter, call: Call, name: str) -> Value:
    """torch.optim.lr_scheduler.StepLR(optimizer, ...), transformers.get_scheduler("cosine", optimizer).

    `given`: the texts of its arguments; `steps`: a pattern of those with names that are known numbers.
    """
    values = [*call.args, *call.kwargs.values()]
    nodes = [*call.node.args, *(word.value for word in call.node.keywords)]
    pairs = [(value, ast.unparse(node)) for value, node in zip(values, nodes, strict=False)]
    known = not call.open and "steps_per_epoch" not in call.kwargs
    kind = (call.get("name", 0) or UNKNOWN) if name == "get_scheduler" else Const(name)
    given = [text for value, text in pairs if it.kind(value) != "optimizer" and "opt" not in text]
    steps = [text for value, text in pairs if isinstance(value, Const) and type(value.value) is int]
    attrs = {
        "optimizer": next((value for value in values if it.kind(value) == "optimizer"), UNKNOWN),
        "kind": kind if known else UNKNOWN,
        "given": Const("\n".join(given)),
        "steps": Const("|".join(map(re.escape, filter(_NAMED.match, steps)))),
    }
    return it.allocate(HeapObject("scheduler", call.place, attrs))


def _step(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.emit(call.event("schedule", get_id(owner), optimizer=it.attr(owner, "optimizer")))
    return NONE


def _zero_grad(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.emit(call.event("zero grad", get_id(owner)))
    return NONE


METHODS: dict[tuple[str, str], MethodModel] = {
    ("scheduler", "step"): _step,
    ("optimizer", "zero_grad"): _zero_grad,
}
