"""Expressions of the language, as values that may be known, partly known or unknown."""

import ast
import builtins
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from preflight.script import calling
from preflight.script.reading import Place
from preflight.script.values import (
    FALSE,
    NONE,
    TRUE,
    UNKNOWN,
    Class,
    Const,
    Device,
    Dtype,
    Ext,
    Func,
    Map,
    Method,
    Module,
    OneOf,
    Part,
    Rank,
    Ref,
    Scalar,
    Seq,
    Value,
    alternatives,
    join,
    merged,
    text_of,
    truth,
)

if TYPE_CHECKING:
    from preflight.script.interpreter import Interpreter

BUILTINS = frozenset(dir(builtins))

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_MAX_TEXT = 10_000


def evaluate(it: "Interpreter", node: ast.expr) -> Value:
    """Return what an expression may be."""
    handler = _HANDLERS.get(type(node))
    return handler(it, node) if handler else _children(it, node)


def _children(it: "Interpreter", node: ast.expr) -> Value:
    """Evaluate what stands inside an expression that is not modelled, for what it does."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            it.evaluate(child)
    return UNKNOWN


def _constant(it: "Interpreter", node: ast.Constant) -> Value:
    if node.value is Ellipsis or isinstance(node.value, complex):
        return UNKNOWN
    return Const(node.value, it.place(node))


def _name(it: "Interpreter", node: ast.Name) -> Value:
    return it.lookup(node.id)


def _attribute(it: "Interpreter", node: ast.Attribute) -> Value:
    return get_attribute(it, it.evaluate(node.value), node.attr, node)


def get_attribute(it: "Interpreter", owner: Value, name: str, node: ast.AST) -> Value:
    """Return `owner.name`."""
    if isinstance(owner, OneOf):
        return join(get_attribute(it, item, name, node) for item in owner.values)
    if isinstance(owner, Ext):
        full = f"{owner.name}.{name}"
        known = it.library.constant(it, full, it.place(node))
        return Ext(full) if known is None else known
    if isinstance(owner, Module):
        frame = it.module_of(owner)
        return it.state.frames.get(frame or -1, {}).get(name, UNKNOWN)
    if isinstance(owner, Class):
        return _class_attribute(it, owner, name)
    if isinstance(owner, Part):
        return it.library.attribute(it, owner, name, it.place(node))
    if isinstance(owner, Ref):
        return _thing_attribute(it, owner, name, node)
    if isinstance(owner, Method) and owner.name == "super":
        return Method(owner.owner, f"super.{name}")
    if isinstance(owner, Map | Seq | Const | Dtype | Device):
        return _plain_method(owner, name)
    return UNKNOWN


def _plain_method(owner: "Map | Seq | Const | Dtype | Device", name: str) -> Value:
    if isinstance(owner, Device):
        if name == "type":
            return Const(owner.kind)
        if name == "index":
            return Rank() if owner.of_rank else Const(owner.index)
        return UNKNOWN
    if isinstance(owner, Dtype):
        return UNKNOWN
    if isinstance(owner, Map) and (held := owner.get(name)) is not None:
        return held  # OmegaConf, Munch and the like: an entry is an attribute
    if isinstance(owner, Const) and name in ("parent", "parents") and isinstance(owner.value, str):
        return Const(owner.value.rpartition("/")[0] or ".")
    return Ext(f"value.{name}")  # called with its owner in place by `calling`


def _class_attribute(it: "Interpreter", owner: Class, name: str) -> Value:
    for info in it.mro(owner.key):
        if name in info.names:
            value = info.names[name]
            if isinstance(value, Func) and _has_decorator(it, value, "classmethod"):
                return Func(value.key, value.frame, owner)
            return value
    base = it.library_base(owner.key)
    return Ext(f"{base}.{name}") if base else UNKNOWN


def _has_decorator(it: "Interpreter", func: Func, name: str) -> bool:
    info = it.functions.get(func.key)
    return info is not None and Ext(f"builtins.{name}") in info.decorators


def _thing_attribute(it: "Interpreter", owner: Ref, name: str, node: ast.AST) -> Value:
    thing = it.thing(owner)
    if thing is None:
        return UNKNOWN
    if name in thing.attrs:
        return thing.attrs[name]
    of_class = thing.attrs.get("__class__")
    if isinstance(of_class, Class):
        for info in it.mro(of_class.key):
            if name in info.names:
                value = info.names[name]
                if not isinstance(value, Func):
                    return value
                if _has_decorator(it, value, "staticmethod"):
                    return value
                bound = Func(value.key, value.frame, owner)
                if _has_decorator(it, value, "property"):
                    return calling.call_simple(it, bound, node)
                return bound
    return it.library.attribute(it, owner, name, it.place(node))


def _subscript(it: "Interpreter", node: ast.Subscript) -> Value:
    owner, key = it.evaluate(node.value), it.evaluate(node.slice)
    return join(_item(it, item, key) for item in alternatives(owner))


def _item(it: "Interpreter", owner: Value, key: Value) -> Value:
    if isinstance(owner, Ext):
        return it.library.subscript(it, owner.name, key)
    if isinstance(owner, Map):
        keys = [item.value for item in alternatives(key) if isinstance(item, Const)]
        if keys and len(keys) == len(list(alternatives(key))):
            return join(owner.get(name) or UNKNOWN for name in keys)
        return join((*(value for _, value in owner.items), UNKNOWN))
    index = key.value if isinstance(key, Const) and isinstance(key.value, int) else None
    if index is not None and isinstance(owner, Seq) and -len(owner.items) <= index < len(owner.items):
        return owner.items[index]
    text = text_of(owner)
    if index is not None and text is not None and -len(text) <= index < len(text):
        return Const(text[index])
    if isinstance(owner, Part):
        return owner
    return UNKNOWN


def _call(it: "Interpreter", node: ast.Call) -> Value:
    return calling.call(it, node)


def _if_expression(it: "Interpreter", node: ast.IfExp) -> Value:
    known = truth(it.evaluate(node.test))
    if known is not None:
        return it.evaluate(node.body if known else node.orelse)
    return join((it.evaluate(node.body), it.evaluate(node.orelse)))


def _bool_operation(it: "Interpreter", node: ast.BoolOp) -> Value:
    stops_at = isinstance(node.op, ast.Or)
    seen: list[Value] = []
    for part in node.values:
        value = it.evaluate(part)
        known = truth(value)
        if known is stops_at:
            return join((*seen, value)) if seen else value
        if known is None:
            seen.append(value)
    return join((*seen, value)) if seen else value


def _unary(it: "Interpreter", node: ast.UnaryOp) -> Value:
    value = it.evaluate(node.operand)
    if isinstance(node.op, ast.Not):
        known = truth(value)
        return UNKNOWN if known is None else Const(not known)
    if isinstance(node.op, ast.USub) and isinstance(value, Const) and isinstance(value.value, int | float):
        return Const(-value.value)
    return UNKNOWN


def _binary(it: "Interpreter", node: ast.BinOp) -> Value:
    left, right = it.evaluate(node.left), it.evaluate(node.right)
    if isinstance(left, Rank) or isinstance(right, Rank):
        text = left.value if isinstance(left, Const) else None
        if isinstance(text, str):
            return Device("cuda", of_rank=True) if text.startswith("cuda:") else Rank()
        return Rank()
    if isinstance(left, Map) and isinstance(right, Map) and isinstance(node.op, ast.BitOr):
        return merged(left, right)
    if isinstance(left, Seq) and isinstance(right, Seq) and isinstance(node.op, ast.Add):
        return Seq((*left.items, *right.items), left.open or right.open)
    one, other = text_of(left), text_of(right)
    if isinstance(node.op, ast.Div) and one is not None and other is not None:
        return Const(f"{one}/{other}")  # paths, which their texts stand for
    operation = _BINARY.get(type(node.op))
    if operation and isinstance(left, Const) and isinstance(right, Const):
        return _calculated(operation, left.value, right.value, it.place(node))
    return UNKNOWN


def _calculated(operation: Callable[[Any, Any], Any], left: Scalar, right: Scalar, place: Place) -> Value:
    if isinstance(left, str | bytes) != isinstance(right, str | bytes):
        return UNKNOWN  # "x" * n could be large, and "%" formatting is not needed
    try:
        result = operation(left, right)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return UNKNOWN
    if isinstance(result, str | bytes) and len(result) > _MAX_TEXT:
        return UNKNOWN
    return Const(result, place) if isinstance(result, str | int | float | bool | bytes) else UNKNOWN


def _compare(it: "Interpreter", node: ast.Compare) -> Value:
    left = it.evaluate(node.left)
    result: Value = TRUE
    for op, part in zip(node.ops, node.comparators, strict=True):
        right = it.evaluate(part)
        answer = _compared(it, op, left, right)
        if answer is not True:
            result = FALSE if answer is False else UNKNOWN
            break
        left = right
    return result


def _compared(it: "Interpreter", op: ast.cmpop, left: Value, right: Value) -> bool | None:
    answers = {
        _compared_one(it, op, one, other) for one in alternatives(left) for other in alternatives(right)
    }
    return answers.pop() if len(answers) == 1 else None


def _compared_one(it: "Interpreter", op: ast.cmpop, left: Value, right: Value) -> bool | None:
    if isinstance(op, ast.In | ast.NotIn):
        inside = _contains(it, right, left)
        return inside if inside is None or isinstance(op, ast.In) else not inside
    if isinstance(left, Rank) and isinstance(right, Const):
        return _rank_against(op, right.value)
    if isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        same = _same(left, right)
        return same if same is None or isinstance(op, ast.Is | ast.Eq) else not same
    operation = _COMPARE.get(type(op))
    one, other = _plain(left), _plain(right)
    if operation is None or one is None or other is None:
        return None
    try:
        return bool(operation(one, other))
    except TypeError:
        return None


def _plain(value: Value) -> Any:
    """Return a constant, or a tuple of constants, as itself."""
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Seq) and not value.open and all(isinstance(item, Const) for item in value.items):
        return tuple(item.value for item in value.items if isinstance(item, Const))
    return None


def _rank_against(op: ast.cmpop, value: Scalar) -> bool | None:
    """A rank is never negative and never None."""
    if value is None or (isinstance(value, int) and value < 0):
        if isinstance(op, ast.Eq | ast.Is | ast.Lt | ast.LtE):
            return False
        if isinstance(op, ast.NotEq | ast.IsNot | ast.Gt | ast.GtE):
            return True
    if value == 0 and isinstance(op, ast.GtE):
        return True
    return None


def _same(left: Value, right: Value) -> bool | None:
    known = (Const, Dtype, Device, Seq, Map, Ref, Func, Class)
    left, right = _actual(left), _actual(right)
    if isinstance(left, Ext) and isinstance(right, Ext):
        return True if left == right else None
    if isinstance(left, known) and isinstance(right, known):
        if isinstance(left, Seq | Map) and isinstance(right, Seq | Map):
            return None
        if isinstance(left, Device) and isinstance(right, Const):
            return None
        return left == right
    if NONE in (left, right) and not any(isinstance(item, type(UNKNOWN)) for item in (left, right)):
        return left == right  # a function, a rank, a library's class: not None
    return None


def _actual(value: Value) -> Value:
    """Return the dtype that `next(model.parameters()).dtype` is, Unknown when parameters may differ."""
    if isinstance(value, Dtype) and value.name in ("own", "checkpoint"):
        return Dtype(value.actual) if value.actual else UNKNOWN
    return value


def _contains(it: "Interpreter", whole: Value, item: Value) -> bool | None:
    if isinstance(whole, Ext):
        found = it.library.subscript(it, f"{whole.name}.__contains__", item)
        return truth(found) if isinstance(found, Const) else None
    if isinstance(whole, Const) and isinstance(whole.value, str) and isinstance(item, Const):
        return item.value in whole.value if isinstance(item.value, str) else None
    if isinstance(whole, Seq) and not isinstance(item, Const | Dtype):
        return None
    if isinstance(whole, Seq):
        answers = [_same(item, other) for other in whole.items]
        if True in answers:
            return True
        return None if whole.open or None in answers else False
    if isinstance(whole, Map) and isinstance(item, Const):
        return True if whole.get(item.value) is not None else (None if whole.open else False)
    return None


def _joined_text(it: "Interpreter", node: ast.JoinedStr) -> Value:
    text = ""
    ranked = unknown = False
    for part in node.values:
        value = it.evaluate(part.value) if isinstance(part, ast.FormattedValue) else it.evaluate(part)
        if isinstance(value, Const):
            text += str(value.value)
        elif isinstance(value, Rank):
            ranked = True
        else:
            unknown = True
    if ranked and text in ("cuda:", "cuda"):
        return Device("cuda", of_rank=True)
    if unknown:
        return UNKNOWN
    return Rank() if ranked else Const(text, it.place(node))


def _sequence(it: "Interpreter", node: ast.expr) -> Value:
    items: list[Value] = []
    is_open = False
    for part in getattr(node, "elts", []):
        if not isinstance(part, ast.Starred):
            items.append(it.evaluate(part))
            continue
        inner = it.evaluate(part.value)
        if isinstance(inner, Seq):
            items += inner.items
            is_open = is_open or inner.open
        else:
            items.append(it.library.element(it, inner))
            is_open = True
    return Seq(tuple(items), is_open)


def _dict(it: "Interpreter", node: ast.Dict) -> Value:
    items: dict[Scalar, Value] = {}
    places: dict[Scalar, Place] = {}
    is_open = False
    for key, part in zip(node.keys, node.values, strict=True):
        value = it.evaluate(part)
        if key is None:
            if isinstance(value, Map):
                items |= dict(value.items)
                places |= value.places
                is_open = is_open or value.open
            else:
                is_open = True
            continue
        name = it.evaluate(key)
        if isinstance(name, Const):
            items[name.value] = value
            places[name.value] = it.place(key)
        else:
            is_open = True
    return Map(tuple(items.items()), is_open, places)


def _comprehension(it: "Interpreter", node: ast.expr) -> Value:
    frame = it.new_frame(it.frame)
    outer, it.frame = it.frame, frame
    try:
        for generator in getattr(node, "generators", []):
            value = it.library.element(it, it.evaluate(generator.iter))
            assign(it, generator.target, value)
            for condition in generator.ifs:
                it.evaluate(condition)
        if isinstance(node, ast.DictComp):
            it.evaluate(node.key)
            return Map((("*", it.evaluate(node.value)),), open=True)
        item = it.evaluate(getattr(node, "elt"))  # noqa: B009 - one of three node classes that have it
    finally:
        it.frame = outer
        it.state.frames.pop(frame, None)
    if isinstance(item, Part) and item.what == "parameter":
        return Part(item.of, "parameters")
    return Seq((item,), open=True)


def _lambda(it: "Interpreter", node: ast.Lambda) -> Value:
    return calling.define(it, node, ())


def _named(it: "Interpreter", node: ast.NamedExpr) -> Value:
    value = it.evaluate(node.value)
    it.bind(node.target.id, value)
    return value


def _yield(it: "Interpreter", node: ast.Yield) -> Value:
    value = it.evaluate(node.value) if node.value else NONE
    if it.yields is not None:
        it.yields.append(value)
    return UNKNOWN


def _through(it: "Interpreter", node: ast.expr) -> Value:
    return it.evaluate(getattr(node, "value"))  # noqa: B009 - Await and Starred


def assign(it: "Interpreter", target: ast.expr, value: Value) -> None:
    """Give a target (name, attribute, item, tuple of them) a value."""
    if isinstance(target, ast.Name):
        it.bind(target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(it, target.elts, value)
    elif isinstance(target, ast.Starred):
        assign(it, target.value, Seq((value,), open=True))
    elif isinstance(target, ast.Attribute):
        for owner in alternatives(it.evaluate(target.value)):
            _set_attribute(it, owner, target.attr, value, target)
    elif isinstance(target, ast.Subscript):
        _set_item(it, target, value)


def _unpack(it: "Interpreter", targets: list[ast.expr], value: Value) -> None:
    if isinstance(value, OneOf) and all(isinstance(item, Seq) for item in value.values):
        rows = [item.items for item in value.values if isinstance(item, Seq)]
        if all(len(row) == len(targets) for row in rows):
            for index, target in enumerate(targets):
                assign(it, target, join(row[index] for row in rows))
            return
    exact = isinstance(value, Seq) and len(value.items) == len(targets) and not value.open
    has_star = any(isinstance(target, ast.Starred) for target in targets)
    for index, target in enumerate(targets):
        if exact and not has_star and isinstance(value, Seq):
            assign(it, target, value.items[index])
        else:
            assign(it, target, it.library.element(it, value) if isinstance(value, Part) else UNKNOWN)


def _set_attribute(it: "Interpreter", owner: Value, name: str, value: Value, node: ast.expr) -> None:
    if isinstance(owner, Ref | Part):
        it.library.assign(it, owner, name, value, it.place(node))
    if isinstance(owner, Ref):
        it.change(owner.id, **{name: value})
    elif isinstance(owner, Module):
        frame = it.module_of(owner)
        if frame is not None:
            it.state.frames[frame][name] = value


def _set_item(it: "Interpreter", target: ast.Subscript, value: Value) -> None:
    owner, key = it.evaluate(target.value), it.evaluate(target.slice)
    if isinstance(owner, Ext):
        it.library.call(it, f"{owner.name}.__setitem__", calling.bare(it, target, (key, value)))
        return
    if isinstance(owner, Map):
        items, places = dict(owner.items), dict(owner.places)
        if isinstance(key, Const):
            items[key.value] = value
            places[key.value] = it.place(target)
        assign(it, target.value, Map(tuple(items.items()), owner.open or not isinstance(key, Const), places))


_HANDLERS: dict[type[ast.expr], Callable[["Interpreter", Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Call: _call,
    ast.IfExp: _if_expression,
    ast.BoolOp: _bool_operation,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.JoinedStr: _joined_text,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Lambda: _lambda,
    ast.NamedExpr: _named,
    ast.Yield: _yield,
    ast.YieldFrom: _through,
    ast.Await: _through,
    ast.Starred: _through,
}
