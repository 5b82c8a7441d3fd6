"""What a Trainer calls of the script while it trains: callbacks, and methods that the script overrides."""

from preflight.script.interpreter.branch_conditions import OTHER_RANKS, RANK_0
from preflight.script.interpreter.calls import call_function
from preflight.script.interpreter.classes import find_method, instantiate
from preflight.script.interpreter.contexts import note_autocast
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.models import find_trained_dtype
from preflight.script.values import Class, Element, OneOf, Ref, Seq, Value
from preflight.script.values.constants import NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import join, list_values

_BEFORE = ("on_init_end", "on_train_begin")
_CALLBACKS = (
    *("on_step_begin", "on_step_end", "on_evaluate", "on_log", "on_save", "on_epoch_end", "on_epoch_begin"),
    *("on_substep_end", "on_predict", "on_prediction_step", "on_optimizer_step"),
    *("on_step_begin", "on_step_end"),  # once more, with what those behind them have left
)
CONTROL = "trainer control"
STOPS = {
    CONTROL: ("should_training_stop", "should_epoch_stop", "should_evaluate"),
    "lightning trainer": ("should_stop",),
}
"""Attributes by which a callback says what all ranks do next, by the object that has them."""


_OVERRIDDEN = (
    *("training_step", "compute_loss", "evaluate", "evaluation_loop", "prediction_step", "save_model"),
    "log",
)


def run_start_callbacks(it: Interpreter, trainer: Ref, call: Call) -> None:
    """Read what the Trainer calls of callbacks before its first step; their classes become objects."""
    thing = it.thing(trainer)
    if thing is None:
        return
    optimizer = call_methods(it, trainer, ("create_optimizer",), call.with_arguments())
    if optimizer != UNKNOWN:
        it.change(trainer.id, optimizers=Seq((optimizer,)))
    if thing.get("callbacks") != NONE and not isinstance(thing.get("callbacks"), OneOf):
        none = call.with_arguments()
        made = make_instances(it, thing.get("callbacks"), none)
        it.change(trainer.id, callbacks=made)
        seen = _given(thing, _models(it, thing), call)
        for item in made.items:
            call_methods(it, item, _BEFORE, seen)


def make_instances(it: Interpreter, callbacks: Value, call: Call) -> Seq:
    """Return callbacks as objects: one, a list, classes that the Trainer makes objects of."""
    items = callbacks.items if isinstance(callbacks, Seq) else (callbacks,)
    return Seq(tuple(instantiate(it, item, call) if isinstance(item, Class) else item for item in items))


def _models(it: Interpreter, trainer: HeapObject) -> list[Value]:
    return [item for item in list_values(trainer.get("model")) if it.kind(item) == "model"]


def _given(trainer: HeapObject, models: list[Value], call: Call) -> Call:
    given = {"model": join(models) if models else UNKNOWN}
    return Call(
        call.node, call.place, (trainer.get("args"), UNKNOWN, trainer.get("control")), given, {}, open=True
    )


def run_step_callbacks(it: Interpreter, trainer: Ref, call: Call) -> None:
    """Read what the Trainer calls while it trains: callbacks, and methods that the script overrides."""
    thing = it.thing(trainer)
    if thing is None:
        return
    models = _models(it, thing)
    for model in models:
        held = it.thing(model)
        if held is not None and isinstance(model, Ref):
            it.change(model.id, stepped=TRUE, optimized=TRUE, optimized_dtype=find_trained_dtype(held))
    it.contexts.append("training")
    seen = _given(thing, models, call)
    for item, place in _list_callbacks(thing.get("callbacks")).items():
        it.contexts += [place] if place else []
        call_methods(it, item, _CALLBACKS, seen)
        del it.contexts[len(it.contexts) - bool(place) :]
    for context in ("compute_loss_context_manager", "autocast_smart_context_manager"):
        note_autocast(it, call_methods(it, trainer, (context,), call.with_arguments()))
    call_methods(it, trainer, _OVERRIDDEN, Call(call.node, call.place, (), seen.kwargs, {}, open=True))
    it.contexts.remove("training")
    it.emit(call.event("trained", trainer.id))


def _list_callbacks(given: Value) -> dict[Value, str]:
    """Return the callbacks of a Trainer, each with the ranks that alone have it, "" for all."""
    held = (given.held if isinstance(given, OneOf) else None) or {}
    places = {True: RANK_0, False: OTHER_RANKS, None: ""}
    found = dict[Value, str]()
    for lot in (lot for lot in list_values(given) if isinstance(lot, Seq)):
        for item in lot.items:
            found[item] = "" if item in found else places[held.get(lot)]
    return found


def call_methods(it: Interpreter, owner: Value, names: tuple[str, ...], seen: Call) -> Value:
    """Call those methods that the script's class of an object has; return what the last gives."""
    found: Value = UNKNOWN
    for method in filter(None, [find_method(it, owner, name) for name in names]):
        dead = it.state.dead
        found = call_function(it, method, seen)
        it.state.dead = dead  # one that raises does so at times: the training may well come to its end
    return found


def add_callback(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Note a callback that is added after the Trainer was made."""
    callbacks = it.attr(owner, "callbacks")
    if isinstance(owner, Ref) and call.args:
        held = callbacks.items if isinstance(callbacks, Seq) else ()
        it.change(owner.id, callbacks=Seq((*held, call.args[0])))
    return NONE
