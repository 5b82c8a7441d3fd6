"""Classes of the script that are lists, as of hooks and callbacks that are called in turn."""

from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import ConstructorModel, Interpreter, MethodModel
from preflight.script.interpreter.values import NONE, Element, Ref, Seq, Value, get_id

_ITEMS = "__items__"


def list_items(it: Interpreter, owner: Ref | Element) -> Seq:
    """Return what a list holds, as far as is known."""
    held = it.attr(owner, _ITEMS)
    return held if isinstance(held, Seq) else Seq((), open=True)


def _put(it: Interpreter, owner: Ref | Element, held: Seq) -> Value:
    it.change(get_id(owner), **{_ITEMS: it.limit_value(held, it.source.tree)})
    return NONE


def _append(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    held = list_items(it, owner)
    return _put(it, owner, Seq((*held.items, call.args[-1] if call.args else NONE), held.open))


def _extend(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    held = list_items(it, owner)
    more = _listed(it, call.first)
    return _put(it, owner, Seq((*held.items, *more.items), held.open or more.open))


def _construct(it: Interpreter, ref: Ref, _name: str, call: Call) -> None:
    _put(it, ref, _listed(it, call.args[0] if call.args else Seq(())))


def _listed(it: Interpreter, given: Value) -> Seq:
    return given if isinstance(given, Seq) else Seq((it.library.element(it, given),), open=True)


CLASSES = dict.fromkeys(("builtins.list", "collections.UserList"), "list")
CONSTRUCT: dict[str, ConstructorModel] = {"list": _construct}
METHODS: dict[tuple[str, str], MethodModel] = {
    ("list", "append"): _append,
    ("list", "insert"): _append,
    ("list", "extend"): _extend,
}
