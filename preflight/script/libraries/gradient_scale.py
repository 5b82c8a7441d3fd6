"""accelerate's unscaling: what takes the scale out of gradients before a script clips them itself."""

from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import NONE, TRUE, Element, Ref, Value


def unscale_gradients(it: Interpreter, _owner: Ref | Element, call: Call) -> Value:
    """accelerator.unscale_gradients(optimizer); of all optimizers where none is given."""
    given = call.first
    optimizers = [given.id] if isinstance(given, Ref) else []
    every = (number for number, thing in it.state.heap.items() if thing.kind == "optimizer")
    for number in optimizers or list(every):
        it.change(number, unscaled=TRUE)
    return NONE
