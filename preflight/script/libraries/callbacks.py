"""What a Trainer calls of the script while it trains: callbacks, and methods that the script overrides."""

from typing import TYPE_CHECKING

from preflight.script.interpreter.calls import call_function, instantiate
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.values import (
    NONE,
    TRUE,
    UNKNOWN,
    Class,
    Element,
    Func,
    Ref,
    Seq,
    Value,
    alternatives,
    join,
)
from preflight.script.libraries.models import trained_dtype

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter


_CALLBACKS = (
    *("on_step_begin", "on_step_end", "on_evaluate", "on_log", "on_save", "on_epoch_end", "on_epoch_begin"),
    *("on_substep_end", "on_predict", "on_prediction_step", "on_optimizer_step"),
)


_OVERRIDDEN = (
    "training_step",
    "compute_loss",
    "evaluate",
    "evaluation_loop",
    "prediction_step",
    "save_model",
    "log",
)


def between_steps(it: "Interpreter", trainer: Ref, call: Call) -> None:
    """Read what the Trainer calls while it trains: callbacks, and methods that the script overrides."""
    thing = it.thing(trainer)
    if thing is None:
        return
    models = [item for item in alternatives(thing.get("model")) if it.kind(item) == "model"]
    for model in models:
        held = it.thing(model)
        if held is not None and isinstance(model, Ref):
            it.change(model.id, stepped=TRUE, optimized=TRUE, optimized_dtype=trained_dtype(held))
    given = {"model": join(models) if models else UNKNOWN}
    it.contexts.append("training")
    seen = Call(call.node, call.place, (UNKNOWN,) * 3, given, {}, open=True)
    callbacks = thing.get("callbacks")
    for item in callbacks.items if isinstance(callbacks, Seq) else ():
        none = Call(call.node, call.place, (), {}, {}, open=False)
        made = instantiate(it, item, none) if isinstance(item, Class) else item
        _call_methods(it, made, _CALLBACKS, seen)
    _call_methods(it, trainer, _OVERRIDDEN, Call(call.node, call.place, (), given, {}, open=True))
    it.contexts.remove("training")
    it.emit(ScriptEvent("trained", call.place, trainer.id, call))


def _call_methods(it: "Interpreter", owner: Value, names: tuple[str, ...], seen: Call) -> None:
    thing = it.thing(owner) if isinstance(owner, Ref) else None
    cls = thing.get("__class__") if thing else NONE
    if not isinstance(cls, Class) or not isinstance(owner, Ref):
        return
    for name in names:
        method = next((info.names[name] for info in it.mro(cls.key) if name in info.names), None)
        if isinstance(method, Func):
            call_function(it, Func(method.key, method.frame, owner), seen)


def add_callback(it: "Interpreter", owner: Ref | Element, call: Call) -> Value:
    """Note a callback that is added after the Trainer was made."""
    thing = it.thing(owner)
    callbacks = thing.get("callbacks") if thing else NONE
    if isinstance(owner, Ref) and call.args:
        held = callbacks.items if isinstance(callbacks, Seq) else ()
        it.change(owner.id, callbacks=Seq((*held, call.args[0])))
    return NONE
