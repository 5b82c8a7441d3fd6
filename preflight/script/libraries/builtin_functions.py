"""Builtins that compute, and partial(): of constants, lists and dicts of them they give what Python does."""

import ast
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

from preflight.facts.script import CodeLocation
from preflight.script.interpreter.attributes import get_attribute
from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter, MethodModel
from preflight.script.values import (
    Class,
    Const,
    Dtype,
    Element,
    ExternalName,
    Func,
    Map,
    Module,
    RankValue,
    Ref,
    Seq,
    Value,
)
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import MAX_ALTERNATIVES, as_bool, as_text, join, list_values

_MAX_ITEMS = 64
_MAX_LITERAL = 4096  # characters of a text that is read as a literal
_TYPES: dict[str, tuple[type, ...]] = {
    "builtins.str": (str,),
    "builtins.int": (int,),
    "builtins.float": (float,),
    "builtins.bool": (bool,),
    "builtins.bytes": (bytes,),
}
_KINDS = {"torch.nn.Module": "model", "torch.optim.Optimizer": "optimizer"}


class _NotPlain(Exception):
    """A value that is not made of a few constants."""


def _python_value(value: Value) -> Any:
    """Return what a value is in Python. Raises _NotPlain."""
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Seq) and not value.open and len(value.items) <= _MAX_ITEMS:
        return tuple(_python_value(item) for item in value.items)
    if isinstance(value, Map) and not value.open and len(value.items) <= _MAX_ITEMS:
        return {name: _python_value(item) for name, item in value.items}
    raise _NotPlain


def _value(result: Any, place: CodeLocation | None = None) -> Value:
    if isinstance(result, (list, tuple)):
        return Seq(tuple(_value(item, place) for item in result))
    if isinstance(result, dict):
        return Map(tuple((name, _value(item, place)) for name, item in result.items()))
    plain = isinstance(result, (str, int, float, bool, bytes, type(None)))
    return Const(result, place) if plain else UNKNOWN


def _written(it: Interpreter, values: Iterable[Value]) -> CodeLocation | None:
    """Return where an option's default is written that is among these: what it decides holds without it."""
    for value in values:
        found = _written(it, value.items) if isinstance(value, Seq) else getattr(value, "place", None)
        if found in it.options.places:
            return found
    return None


def _computed(function: Callable[..., Any]) -> CallModel:
    """Return the model of a function that only computes; keywords are not modelled."""

    def model(it: Interpreter, call: Call) -> Value:
        if call.open or call.kwargs:
            return UNKNOWN
        try:
            return _value(function(*(_python_value(item) for item in call.args)), _written(it, call.args))
        except (_NotPlain, TypeError, ValueError, OverflowError, ArithmeticError):
            return UNKNOWN

    return model


def _literal(text: str) -> Any:
    """Return what a short text spells, as ast.literal_eval does. Raises ValueError for any other."""
    if not isinstance(text, str) or len(text) > _MAX_LITERAL:
        raise ValueError
    try:
        return ast.literal_eval(text)
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError from error


LENGTH_OF_PART, LENGTH_OF_ALL = "length of a loader from prepare()", "length of another loader"


def _length(it: Interpreter, call: Call) -> Value:
    value = call.first
    if isinstance(value, (Seq, Map)) and not value.open:
        return Const(len(value.items), _written(it, call.args))
    if it.kind(value) == "loader":
        it.note(LENGTH_OF_PART if it.attr(value, "accelerator") != NONE else LENGTH_OF_ALL, call.place)
    text = as_text(value)
    return UNKNOWN if text is None else Const(len(text), _written(it, call.args))


def _truth_of_items(*, stops_at: bool) -> CallModel:
    """Return the model of `any` or `all`, which an item that is `stops_at` decides."""

    def model(_it: Interpreter, call: Call) -> Value:
        value = call.first
        if not isinstance(value, Seq):
            return UNKNOWN
        answers = [as_bool(item) for item in value.items]
        if stops_at in answers:
            return Const(stops_at)
        return UNKNOWN if None in answers or value.open else Const(not stops_at)

    return model


def _isinstance(it: Interpreter, call: Call) -> Value:
    if len(call.args) != 2:
        return UNKNOWN
    kinds = call.args[1].items if isinstance(call.args[1], Seq) else (call.args[1],)
    answers = {is_one_of(it, value, kinds) for value in list_values(call.args[0])}
    answer = answers.pop() if len(answers) == 1 else None
    return UNKNOWN if answer is None else Const(answer)


def is_one_of(it: Interpreter, value: Value, kinds: Iterable[Value]) -> bool | None:
    """Return whether a value is of one of some classes, None when reading cannot know."""
    answers = [_is_a(it, value, kind) for kind in kinds]
    return True if True in answers else (None if None in answers else False)


def _is_a(it: Interpreter, value: Value, kind: Value) -> bool | None:
    name = kind.name if isinstance(kind, ExternalName) else ""
    if isinstance(value, Const) and name in _TYPES:
        return isinstance(value.value, _TYPES[name])
    if isinstance(value, Const):
        return False if isinstance(kind, Class) or name.startswith(("builtins.", "torch.")) else None
    if isinstance(value, (Map, Seq)):
        mapping = {"builtins.dict": True, **dict.fromkeys(_TYPES, False)}
        return mapping.get(name) if isinstance(value, Map) else (False if name in _TYPES else None)
    if isinstance(value, Dtype):
        return True if name == "torch.dtype" else (False if name in _TYPES else None)
    if isinstance(value, Ref) and isinstance(kind, Class):
        of_class = it.attr(value, "__class__")
        if isinstance(of_class, Class):
            return any(info is it.classes.get(kind.key) for info in it.mro(of_class.key))
    if isinstance(value, Ref) and name in _KINDS and it.kind(value) in _KINDS.values():
        return it.kind(value) == _KINDS[name]
    modules = it.kind(value) in _KINDS.values() and name.startswith(("builtins.", "torch.Tensor"))
    return False if isinstance(value, Ref) and (modules or name in _TYPES) else None


def _hasattr(it: Interpreter, call: Call) -> Value:
    """Only what an object surely has: what reading does not see may be set by code that it does not read."""
    owner, name = [*call.args, UNKNOWN, UNKNOWN][:2]
    if not isinstance(owner, (Ref, Class)) or not isinstance(name, Const) or not isinstance(name.value, str):
        return UNKNOWN
    if isinstance(owner, Ref) and it.kind(owner) not in ("instance", "namespace"):
        return TRUE if owner.shared and name.value == "module" else UNKNOWN
    return TRUE if get_attribute(it, owner, name.value, call.node) != UNKNOWN else UNKNOWN


def _callable(_it: Interpreter, call: Call) -> Value:
    value = call.first
    if isinstance(value, (Func, Class)):
        return TRUE
    return FALSE if isinstance(value, (Const, Map, Seq, Dtype)) else UNKNOWN


def _type(it: Interpreter, call: Call) -> Value:
    given = call.args[0] if len(call.args) == 1 else UNKNOWN
    if isinstance(given, (Const, Map)):
        return ExternalName(f"builtins.{type(given.value).__name__ if isinstance(given, Const) else 'dict'}")
    return it.attr(given, "__class__", UNKNOWN)


def _enumerate(it: Interpreter, call: Call) -> Value:
    value = call.first
    start = call.get("start", 1) or Const(0)
    if isinstance(value, Seq) and not value.open and isinstance(start, Const) and type(start.value) is int:
        numbers = (Const(start.value + number) for number in range(len(value.items)))
        return Seq(tuple(Seq(pair) for pair in zip(numbers, value.items, strict=True)))
    return Seq((Seq((UNKNOWN, it.library.element(it, value))),), open=True)


def _zip(it: Interpreter, call: Call) -> Value:
    known = [item for item in call.args if isinstance(item, Seq) and not item.open]
    if known and len(known) == len(call.args) and min(len(item.items) for item in known) <= MAX_ALTERNATIVES:
        return Seq(tuple(Seq(row) for row in zip(*(item.items for item in known), strict=False)))
    return Seq((Seq(tuple(it.library.element(it, item) for item in call.args)),), open=True)


def _chain(it: Interpreter, call: Call) -> Value:
    known = [item for item in call.args if isinstance(item, Seq) and not item.open]
    if known and len(known) == len(call.args):
        return Seq(tuple(value for item in known for value in item.items))
    return Seq(tuple(it.library.element(it, item) for item in call.args), open=True)


def _sorted(it: Interpreter, call: Call) -> Value:
    """sorted(x), reversed(x): of what is not constant any item may come first."""
    value = call.first
    exact = _computed(sorted)(it, call)
    if exact != UNKNOWN:
        return exact
    if not isinstance(value, Seq):
        return Seq((it.library.element(it, value),), open=True)
    return Seq((join(value.items),) * len(value.items), value.open) if len(value.items) > 1 else value


def _reversed(it: Interpreter, call: Call) -> Value:
    value = call.first
    if isinstance(value, Seq) and not value.open:
        return Seq(value.items[::-1])
    return _sorted(it, call)


def _next(it: Interpreter, call: Call) -> Value:
    """next(x): the first item, where x is a few known items; its default when there is none.

    Outside of loops it is a batch to look at, not one of those that train.
    """
    value = call.first
    if isinstance(value, Seq) and not value.open:
        return value.items[0] if value.items else call.get("default", 1) or UNKNOWN
    before = it.drawn
    found = it.library.element(it, value)
    if it.drawn is not before:
        it.drawn = (*before, replace(it.drawn[-1], by_next=True)) if it.loop_depth else before
    return join((found, call.args[1])) if len(call.args) > 1 else found


def _filter(it: Interpreter, call: Call) -> Value:
    """filter(lambda p: p.requires_grad, model.parameters()): parameters of that model still."""
    func, value = [*call.args, UNKNOWN, UNKNOWN][:2]
    if isinstance(value, Element):
        return value
    if not isinstance(value, Seq) or value.open or len(value.items) > MAX_ALTERNATIVES:
        return _open(it, value)
    kept = []
    for item in value.items:
        known = as_bool(call_value(it, func, call.with_arguments(item)))
        if known is None:
            return _open(it, value)
        kept += [item] if known else []
    return Seq(tuple(kept))


def _open(it: Interpreter, value: Value) -> Value:
    return Seq((it.library.element(it, value),), open=True)


def _reduce(it: Interpreter, call: Call) -> Value:
    func, value = [*call.args, UNKNOWN, UNKNOWN][:2]
    if not isinstance(value, Seq) or value.open or not 0 < len(value.items) <= MAX_ALTERNATIVES:
        return UNKNOWN
    items = iter((*call.args[2:], *value.items))
    result = next(items)
    for item in islice(items, _MAX_ITEMS):
        result = call_value(it, func, call.with_arguments(result, item))
    return result


def _globals(it: Interpreter, _call: Call) -> Value:
    """globals(): the names of the module, as its attributes."""
    return Module(it.source.path)


def _extreme(function: Callable[..., Any]) -> CallModel:
    compute = _computed(function)
    return lambda it, call: RankValue() if RankValue in map(type, call.args) else compute(it, call)


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


CALLS: dict[str, CallModel] = {
    "builtins.len": _length,
    "builtins.any": _truth_of_items(stops_at=True),
    "builtins.all": _truth_of_items(stops_at=False),
    "builtins.max": _extreme(max),
    "builtins.min": _extreme(min),
    "builtins.sum": _computed(sum),
    "builtins.abs": _computed(abs),
    "builtins.round": _computed(round),
    "builtins.divmod": _computed(divmod),
    "builtins.isinstance": _isinstance,
    "builtins.hasattr": _hasattr,
    "builtins.callable": _callable,
    "builtins.type": _type,
    "builtins.enumerate": _enumerate,
    "builtins.zip": _zip,
    "builtins.sorted": _sorted,
    "builtins.reversed": _reversed,
    "builtins.next": _next,
    "builtins.filter": _filter,
    "builtins.globals": _globals,
    "ast.literal_eval": _computed(_literal),
    "itertools.chain": _chain,
    "functools.reduce": _reduce,
    "functools.partial": _partial,
}

METHODS: dict[tuple[str, str], MethodModel] = {("partial", "__call__"): _call_partial}
