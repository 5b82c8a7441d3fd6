"""Gradients that a script limits itself, and accelerate's unscaling, which comes before that."""

import ast

from preflight import regex as re
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import NONE, TRUE, Element, Ref, Seq, Value

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
    text = ast.unparse(function.node) if function is not None and name in ("mul_", "div_") else ""
    by_norm = "norm" in text and _LIMITS.search(text) and "get_scale" not in text  # which it reckons with
    if name == "clamp_" or by_norm:
        it.emit(call.event("clip", models=Seq((Ref(owner.of),))))
