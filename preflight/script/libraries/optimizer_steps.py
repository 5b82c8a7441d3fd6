"""What goes with an optimizer's step: schedules, dropped or limited gradients, timm's NativeScaler."""

import ast

from preflight import regex as re
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import ConstructorModel, Interpreter, MethodModel
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Const, Element, Ref, Seq, Value
from preflight.script.values.constants import NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import get_id

_NAMED = re.compile(r"(?!.*(?:warm|last_))[A-Za-z_]")


def schedule_of(it: Interpreter, call: Call, name: str) -> Value:
    """torch.optim.lr_scheduler.StepLR(optimizer, ...), transformers.get_scheduler("cosine", optimizer).

    `given`: the texts of its arguments; `steps`: a pattern of those with names that are known numbers.
    """
    values = [*call.args, *call.kwargs.values()]
    nodes = [*call.node.args, *(word.value for word in call.node.keywords)]
    pairs = [(value, unparse(node)) for value, node in zip(values, nodes, strict=False)]
    known = not call.open and "steps_per_epoch" not in call.kwargs
    kind = (call.get("name", 0) or UNKNOWN) if name == "get_scheduler" else Const(name)
    given = [text for value, text in pairs if it.kind(value) != "optimizer" and "opt" not in text]
    bodies = [*it.list_functions(given), *(node for node in nodes if isinstance(node, ast.Lambda))]
    parts = [part for body in bodies for part in walk(body) if name == "LambdaLR"]
    own = {getattr(part, "arg", "") for part in parts if isinstance(part, ast.arg)}
    named = [part for part in parts if isinstance(part, ast.Name) and part.id not in own]
    pairs += [(it.evaluate(part), part.id) for part in named]
    steps = [text for value, text in pairs if isinstance(value, Const) and type(value.value) is int]
    attrs = {
        "optimizer": next((value for value in values if it.kind(value) == "optimizer"), UNKNOWN),
        "kind": kind if known else UNKNOWN,
        "given": Const("\n".join((*given, *steps) if bodies else given)),
        "steps": Const("|".join(map(re.escape, filter(_NAMED.match, steps)))),
    }
    if "last_epoch" in call.kwargs:
        of = attrs["optimizer"]
        it.emit(
            call.event(
                "schedule from", of.id if isinstance(of, Ref) else None, last=call.kwargs["last_epoch"]
            )
        )
    return it.allocate(HeapObject("scheduler", call.place, attrs))


def _step(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.emit(call.event("schedule", get_id(owner), optimizer=it.attr(owner, "optimizer")))
    return NONE


def _load(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.change(get_id(owner), restored=TRUE)
    it.emit(call.event("restored", get_id(owner)))
    return NONE


def _zero_grad(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.emit(call.event("zero grad", get_id(owner)))
    return NONE


_LIMITS = re.compile(r"clip|coef|limit|max_norm")


def unscale_gradients(it: Interpreter, _owner: Ref | Element, call: Call) -> Value:
    """accelerator.unscale_gradients(optimizer); of all optimizers where none is given."""
    given = call.first
    optimizers = [given.id] if isinstance(given, Ref) else []
    every = (number for number, thing in it.state.heap.items() if thing.kind == "optimizer")
    for number in optimizers or list(every):
        it.change(number, unscaled=TRUE)
    return NONE


def note_limit(it: Interpreter, owner: Element, name: str, call: Call) -> None:
    """Note gradients that a function of the script clips: by value, or by the norm of what it multiplies."""
    function = it.function
    text = unparse(function.node) if function is not None and name in ("mul_", "div_") else ""
    by_norm = "norm" in text and _LIMITS.search(text) and "get_scale" not in text  # which it reckons with
    if name == "clamp_" or by_norm:
        it.emit(call.event("clip", models=Seq((Ref(owner.of),))))


def _step_with_scaler(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    number = get_id(owner)
    it.emit(call.event("scaled", number))
    values = {"optimizer": call.get("optimizer", 1) or UNKNOWN}
    it.emit(call.event("scaler step", number, **values))
    it.emit(call.event("scaler update", number))
    return NONE


CLASSES = dict.fromkeys(("timm.utils.NativeScaler", "timm.utils.cuda.NativeScaler"), "timm scaler")

CONSTRUCT: dict[str, ConstructorModel] = {
    "timm scaler": lambda it, ref, _name, _call: it.change(ref.id, enabled=TRUE)
}

METHODS: dict[tuple[str, str], MethodModel] = {
    ("scheduler", "step"): _step,
    ("optimizer", "zero_grad"): _zero_grad,
    **dict.fromkeys((("optimizer", "load_state_dict"), ("scheduler", "load_state_dict")), _load),
    ("timm scaler", "__call__"): _step_with_scaler,
}
