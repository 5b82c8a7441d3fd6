"""Functions made of others: functools.partial."""

from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter, MethodModel
from preflight.script.interpreter.values import (
    NONE,
    UNKNOWN,
    Const,
    Element,
    HeapObject,
    Ref,
    Value,
    join,
    list_values,
)


def _partial(it: Interpreter, call: Call) -> Value:
    """partial(f, ...): it remembers its arguments until it is called."""
    if not call.args:
        return UNKNOWN
    return it.allocate(
        HeapObject("partial", call.place, {"func": call.args[0], "given": Const(it.keep(call))})
    )


def _call_partial(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """What it was given is put before what it is called with."""
    thing = it.thing(owner)
    number = thing.get("given") if thing else NONE
    if thing is None or not isinstance(number, Const) or not isinstance(number.value, int):
        return UNKNOWN
    before = it.kept[number.value]
    kwargs, places = {**before.kwargs, **call.kwargs}, {**before.places, **call.places}
    args, is_open = (*before.args[1:], *call.args), before.open or call.open
    whole = Call(call.node, call.place, args, kwargs, places, open=is_open)
    return join(call_value(it, item, whole) for item in list_values(thing.get("func")))


CALLS: dict[str, CallModel] = {"functools.partial": _partial}

METHODS: dict[tuple[str, str], MethodModel] = {("partial", "__call__"): _call_partial}
