"""Functions made of others: functools.partial and singledispatch, and their forms for methods."""

from dataclasses import replace

from preflight.script.interpreter.calls import invoke
from preflight.script.interpreter.choices import invoke_one_of
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter, MethodModel
from preflight.script.interpreter.values import (
    NONE,
    UNKNOWN,
    Const,
    Element,
    Func,
    HeapObject,
    Method,
    OneOf,
    Ref,
    Seq,
    Value,
    alternatives,
    heap_id,
    join,
)
from preflight.script.libraries.builtin_functions import is_one_of


def _kept(kind: str) -> CallModel:
    """Return what remembers its arguments until it is called."""

    def handle(it: Interpreter, call: Call) -> Value:
        if not call.args:
            return UNKNOWN
        return it.new(HeapObject(kind, call.place, {"func": call.args[0], "given": Const(it.keep(call))}))

    return handle


def _call_partial(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """partial(f, ...): what it was given is put before what it is called with."""
    thing = it.thing(owner)
    number = thing.get("given") if thing else NONE
    if thing is None or not isinstance(number, Const) or not isinstance(number.value, int):
        return UNKNOWN
    before = it.kept[number.value]
    kwargs, places = {**before.kwargs, **call.kwargs}, {**before.places, **call.places}
    args, is_open = (*before.args[1:], *call.args), before.open or call.open
    whole = Call(call.node, call.place, args, kwargs, places, open=is_open)
    return join(invoke(it, item, whole) for item in alternatives(thing.get("func")))


def _register(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """f.register(kind, g), f.register(kind) before g, or f.register where g annotates its first argument."""
    thing, func = it.thing(owner), (UNKNOWN, *call.args)[-1]
    info = it.functions.get(func.key) if isinstance(func, Func) else None
    if thing is None or info is None:
        return _kept("partial")(it, replace(call, args=(Method(owner, "register"), *call.args)))
    first = next(iter(info.node.args.args[thing.kind == "dispatch method" :]), None)
    written = it.evaluate(first.annotation) if first and first.annotation else UNKNOWN
    pair = Seq((call.first if len(call.args) > 1 else written, func))
    held = thing.get("kinds")
    it.change(heap_id(owner), kinds=Seq((*(held.items if isinstance(held, Seq) else ()), pair)))
    return func


def _bound(func: Value, owner: Value) -> Value:
    return replace(func, bound=owner) if isinstance(func, Func) and isinstance(owner, Ref) else func


def _call_by_kind(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """Call the function for the kind of the first argument; those of other kinds are called elsewhere."""
    thing = it.thing(owner)
    held = thing.get("kinds") if thing else NONE
    pairs = [item.items for item in held.items if isinstance(item, Seq)] if isinstance(held, Seq) else []
    answers = [is_one_of(it, call.first, (kind,)) for kind, _ in pairs]
    it.called.update(func.key for _, func in pairs if isinstance(func, Func))
    fitting = [func for (_, func), fits in zip(pairs, answers, strict=True) if fits is not False]
    own = [] if thing is None or True in answers else [thing.get("func")]
    bound = thing.get("bound") if thing else NONE
    func = join(_bound(item, bound) for item in (*fitting, *own))
    return invoke_one_of(it, func, call) if isinstance(func, OneOf) else invoke(it, func, call)


CALLS: dict[str, CallModel] = {
    "functools.partial": _kept("partial"),
    "functools.partialmethod": _kept("partial method"),
    "functools.singledispatch": _kept("dispatch"),
    "functools.singledispatchmethod": _kept("dispatch method"),
}

METHODS: dict[tuple[str, str], MethodModel] = {
    ("partial", "__call__"): _call_partial,
    ("dispatch", "__call__"): _call_by_kind,
    **{(kind, "register"): _register for kind in ("dispatch", "dispatch method")},
}
