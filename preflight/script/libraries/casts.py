"""Casts of models: what they do to the dtype of the weights, and to what an optimizer remembers of it."""

from preflight import regex as re
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, Dtype, Element, Ref, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import get_id, join, list_values

_MAX_MEMBERS = 60
_ASIDE = re.compile(r"teacher|reference|(^|_)ref(_|$)|ema|target|(^|_)vae|text_enc|frozen|momentum")

OWN_DTYPE = "own"  # the dtype that `next(model.parameters()).dtype` reads: of one parameter, not of all


EACH = "each module"  # of a loop over modules() or of apply(): all of a model, one by one

_OF_ADAPTERS = re.compile(r"lora|adapter|peft", re.IGNORECASE)


def list_parts(it: Interpreter, model: int) -> list[int]:
    """Return a model and the models that are its attributes, and theirs: what its parameters() go over."""
    found, heap = {model: None}, it.state.heap
    for item in (waiting := [model]):  # which grows
        thing = heap.get(item)
        for value in thing.attrs.values() if thing and len(found) < _MAX_MEMBERS else ():
            if type(value) is Ref and value.id not in found and it.kind(value) == "model":
                found[value.id] = None
                waiting.append(value.id)
    return waiting


def get_modules(listed: HeapObject | None) -> list[Value]:
    """Return the modules of a Sequential or ModuleList; none where it was made on a path that has ended."""
    attrs = listed.attrs if listed else {}
    return [part for name, part in attrs.items() if name.isdigit()]


def list_trained_with(it: Interpreter, model: int) -> list[int]:
    """Return the models whose weights an optimizer of model.parameters() steps, each of another dtype.

    A teacher or an encoder that only serves is left out: it is in parameters(), and gets no gradient.
    """
    outer = it.thing(model)
    found = [model]
    for item in list_parts(it, model):
        thing = it.thing(item)
        for name, value in thing.attrs.items() if thing else ():
            inner = it.thing(value) if isinstance(value, Ref) else None
            if inner is None or inner.kind != "model" or not isinstance(value, Ref) or _ASIDE.search(name):
                continue
            same = outer is not None and inner.get("dtype") == outer.get("dtype")
            same = same and inner.get("mixed", NONE) == NONE
            if not same and value.id not in found and inner.get("only_used", FALSE) == FALSE:
                found.append(value.id)
    return found


def cast(it: Interpreter, owner: Ref | Element, dtype: Value, *, sure: bool = True) -> None:
    """Note a cast of a model, with the models that it holds, or of a part of one."""
    thing = it.thing(owner)
    if thing is None:
        return
    model = get_id(owner)
    if isinstance(owner, Element) and owner.what == EACH and not it.tests:
        owner = Ref(model)
    for inner in list_parts(it, model)[1:] if isinstance(owner, Ref) else ():
        cast(it, Ref(inner), dtype, sure=sure)
    _note_recast(it, model, thing, dtype)
    if isinstance(owner, Element):
        _cast_part(it, owner, dtype, thing)
        return
    if isinstance(dtype, Dtype) and dtype.name == OWN_DTYPE:
        before = thing.get("optimized_dtype", NONE)
        if isinstance(before, Dtype) and thing.get("mixed", NONE) == NONE and thing.get("adapters") == NONE:
            it.change(model, dtype=before)
        return
    new: dict[str, Value] = {
        "dtype": dtype if sure else join((thing.get("dtype"), dtype)),
        "upcast": FALSE,
        "partly": NONE,
    }
    if thing.get("adapters") != NONE:
        new["adapters"] = new["dtype"]
    it.change(model, **new)


def _cast_part(it: Interpreter, owner: Element, dtype: Value, thing: HeapObject) -> None:
    """Note a cast of one part. The conditions around it say whether they choose adapters, or what else."""
    if isinstance(dtype, Dtype) and dtype.name in ("float32", "float64"):
        it.change(owner.of, upcast=TRUE)
    elif owner.what == EACH and thing.get("adapters") != NONE:
        if any(_OF_ADAPTERS.search(unparse(test)) for test in it.tests):
            it.change(owner.of, adapters=dtype)
    elif owner.what == EACH and isinstance(dtype, Dtype):
        it.change(owner.of, partly=dtype)
    else:
        it.change(owner.of, upcast=join((thing.get("upcast"), UNKNOWN)))


def _note_recast(it: Interpreter, model: int, thing: HeapObject, dtype: Value) -> None:
    """A cast after the first step: the optimizer's state keeps the old dtype. Casting back undoes it."""
    if TRUE not in list_values(thing.get("stepped", FALSE)):
        return
    before = thing.get("optimized_dtype")
    same = isinstance(dtype, Dtype) and dtype == before
    own = isinstance(dtype, Dtype) and dtype.name == OWN_DTYPE
    if isinstance(dtype, Dtype) and dtype.name == "float32":
        same = same or not isinstance(before, Dtype)  # adapters that PEFT made may well be float32 already
    if own and isinstance(before, Dtype) and before.name != "checkpoint" and thing.get("mixed", NONE) == NONE:
        same = True  # all of it has one dtype, so any parameter's will do
    it.change(model, recast=FALSE if same else dtype)
    if isinstance(dtype, Dtype) and dtype.name in ("float16", "bfloat16") and not same:
        it.change(model, rounded=dtype)


def set_trained_dtype(it: Interpreter, model: int, dtype: Value) -> None:
    """Note that whatever is trained of a model, and of the models that it holds, was cast."""
    for inner in list_parts(it, model):
        _set_trained_dtype(it, inner, dtype)


def _set_trained_dtype(it: Interpreter, model: int, dtype: Value) -> None:
    thing = it.thing(model)
    if thing is None:
        return
    if thing.get("adapters") != NONE:
        it.change(model, adapters=dtype, half_extra=FALSE)
    else:
        it.change(model, upcast=TRUE)
        if thing.get("trainable") == Const("all"):
            it.change(model, dtype=dtype, upcast=FALSE, partly=NONE)
