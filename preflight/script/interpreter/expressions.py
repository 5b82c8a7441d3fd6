"""Expressions of the language, as values that may be known, partly known or unknown."""

import ast
import builtins
from collections.abc import Callable
from itertools import islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from preflight.facts.script import CodeLocation
from preflight.script.interpreter import calls, operators, switches
from preflight.script.interpreter.assignments import assign
from preflight.script.interpreter.events import unwrap_value
from preflight.script.interpreter.guards import ONE_PROCESS, branch_places
from preflight.script.interpreter.texts import concatenated
from preflight.script.interpreter.values import (
    MAX_ALTERNATIVES,
    MODEL_FACTS,
    NONE,
    UNKNOWN,
    Class,
    Const,
    Device,
    Dtype,
    Element,
    ExternalName,
    Func,
    Map,
    Method,
    Module,
    OneOf,
    RankValue,
    Ref,
    Scalar,
    Seq,
    Value,
    alternatives,
    join,
    own_attribute,
    text_of,
    truth,
)

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter

BUILTINS = frozenset(dir(builtins))
_VALUE = "gpulaunch_value"
"""Where a constant's node keeps its value."""
_MAX_WRITTEN = 200
"""Items of one list or dict in the text that are read: longer ones are names of classes, words, colours."""


def parts(it: "Interpreter", node: ast.expr) -> Value:
    """Evaluate what is inside an expression that is not modelled, for what it does."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            it.evaluate(child)
    return UNKNOWN


def _constant(it: "Interpreter", node: ast.Constant) -> Value:
    if _VALUE not in node.__dict__:
        if node.value is Ellipsis or isinstance(node.value, complex):
            return UNKNOWN
        node.__dict__[_VALUE] = Const(node.value, it.place(node))
    value: Const = node.__dict__[_VALUE]
    return value


def _name(it: "Interpreter", node: ast.Name) -> Value:
    value = it.lookup(node.id)
    if value is not UNKNOWN or not it.starred:
        return value
    found = (it.library.exported(it, f"{module}.{node.id}", node) for module in it.starred)
    return next((item for item in found if item is not None), UNKNOWN)


def _attribute(it: "Interpreter", node: ast.Attribute) -> Value:
    return get_attribute(it, it.evaluate(node.value), node.attr, node)


def get_attribute(it: "Interpreter", owner: Value, name: str, node: ast.AST) -> Value:
    """Return `owner.name`."""
    read = _ATTRIBUTES.get(type(owner))
    return UNKNOWN if read is None else read(it, owner, name, node)


def _external_attribute(it: "Interpreter", owner: ExternalName, name: str, node: ast.AST) -> Value:
    full = f"{owner.name}.{name}"
    known = it.library.constant(it, full, node)
    return ExternalName(full) if known is None else known


def _attribute_of_each(it: "Interpreter", owner: OneOf, name: str, node: ast.AST) -> Value:
    return join([get_attribute(it, item, name, node) for item in owner.values])


def _module_attribute(it: "Interpreter", owner: Module, name: str, node: ast.AST) -> Value:
    del node
    return it.state.frames.get(it.module_of(owner) or -1, {}).get(name, UNKNOWN)


def _part_attribute(it: "Interpreter", owner: Element, name: str, node: ast.AST) -> Value:
    del node
    return it.library.attribute(it, owner, name)


def _method_attribute(it: "Interpreter", owner: Method, name: str, node: ast.AST) -> Value:
    del it, node
    return Method(owner.owner, f"super.{name}") if owner.name == "super" else UNKNOWN


def _plain_method(
    it: "Interpreter", owner: Map | Seq | Const | Dtype | Device, name: str, node: ast.AST
) -> Value:
    del it, node
    if isinstance(owner, Device):
        if name == "type":
            return Const(owner.kind)
        if name == "index":
            return RankValue() if owner.of_rank else Const(owner.index)
        return UNKNOWN
    if isinstance(owner, Dtype):
        return UNKNOWN
    if isinstance(owner, Map) and (held := owner.get(name)) is not None:
        return held  # OmegaConf, Munch and the like: an entry is an attribute
    if isinstance(owner, Const) and name == "value":
        return owner  # of an Enum's member
    if name == "parent" and (text := text_of(owner)) is not None:
        return Const(str(PurePosixPath(text).parent))
    if name == "parents" and (text := text_of(owner)) is not None:
        folders = islice(PurePosixPath(text).parents, MAX_ALTERNATIVES)
        return Seq(tuple(Const(str(folder)) for folder in folders), open=True)
    return ExternalName(f"value.{name}")  # called with its owner in place by `calling`


def _class_attribute(it: "Interpreter", owner: Class, name: str, node: ast.AST) -> Value:
    del node
    for info in it.mro(owner.key):
        if name in info.names:
            value = info.names[name]
            if isinstance(value, Func) and _has_decorator(it, value, "classmethod"):
                return Func(value.key, value.frame, owner)
            return value
    base = it.library_base(owner.key)
    return ExternalName(f"{base}.{name}") if base else UNKNOWN


def _has_decorator(it: "Interpreter", func: Func, name: str) -> bool:
    info = it.functions.get(func.key)
    return info is not None and ExternalName(f"builtins.{name}") in info.decorators


def _thing_attribute(it: "Interpreter", owner: Ref, name: str, node: ast.AST) -> Value:
    thing = it.thing(owner)
    if thing is None:
        return UNKNOWN
    if name in MODEL_FACTS and own_attribute(name) in thing.attrs:
        return thing.attrs[own_attribute(name)]
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
                    return calls.call_function(it, bound, unwrap_value(it, node, ()))
                return bound
    return it.library.attribute(it, owner, name)


def _subscript(it: "Interpreter", node: ast.Subscript) -> Value:
    owner, key = it.evaluate(node.value), it.evaluate(node.slice)
    if isinstance(owner, OneOf):
        return join([_item(it, item, key) for item in owner.values])
    return _item(it, owner, key)


def _item(it: "Interpreter", owner: Value, key: Value) -> Value:
    if isinstance(owner, ExternalName):
        return it.library.subscript(it, owner.name, key)
    if isinstance(owner, Map):
        keys = [item.value for item in alternatives(key) if isinstance(item, Const)]
        if keys and len(keys) == len(alternatives(key)):
            return join(owner.get(name) or UNKNOWN for name in keys)
        return join((*(value for _, value in owner.items), UNKNOWN))
    index = key.value if isinstance(key, Const) and isinstance(key.value, int) else None
    if index is not None and isinstance(owner, Seq) and -len(owner.items) <= index < len(owner.items):
        return owner.items[index]
    text = text_of(owner)
    if index is not None and text is not None and -len(text) <= index < len(text):
        return Const(text[index])
    if isinstance(owner, Element):
        return owner
    if isinstance(owner, Ref) and isinstance(key, Const) and it.kind(owner) == "model":
        thing = it.state.heap[owner.id]
        return thing.get(own_attribute(str(key.value)), UNKNOWN)
    return UNKNOWN


def _if_expression(it: "Interpreter", node: ast.IfExp) -> Value:
    known = truth(it.evaluate(node.test))
    if known is not None:
        switches.note_closed(it, node.test, [node.orelse if known else node.body])
        return it.evaluate(node.body if known else node.orelse)
    if it.target.processes and it.target.processes > 1:
        if id(node) not in it.branch_places:
            it.branch_places[id(node)] = branch_places(node.test)
        there, elsewhere = it.branch_places[id(node)]
        if ONE_PROCESS in (there, elsewhere):
            return it.evaluate(node.orelse if there == ONE_PROCESS else node.body)
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


def _joined_text(it: "Interpreter", node: ast.JoinedStr) -> Value:
    parts = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
    return concatenated([it.evaluate(part) for part in parts], it.place(node))


def _sequence(it: "Interpreter", node: ast.expr) -> Value:
    items: list[Value] = []
    parts = getattr(node, "elts", [])
    is_open = len(parts) > _MAX_WRITTEN
    for part in parts[:_MAX_WRITTEN]:
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
    places: dict[Scalar, CodeLocation] = {}
    is_open = len(node.keys) > _MAX_WRITTEN
    for key, part in zip(node.keys[:_MAX_WRITTEN], node.values[:_MAX_WRITTEN], strict=True):
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
        generators = getattr(node, "generators", [])
        exact = _known_items(it, node, generators)
        if exact is not None:
            return exact
        for generator in generators:
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
        it.state.drop(frame)
    if isinstance(item, Element) and item.what == "parameter":
        return Element(item.of, "parameters")
    return Seq((item,), open=True)


def _known_items(it: "Interpreter", node: ast.expr, generators: list[ast.comprehension]) -> Value | None:
    """Return what a comprehension makes of a few constants or pairs of them, one by one; None of other items.

    Of a generator an item may be unknown: `any` and `all` may know their answer by the others.
    """
    if len(generators) != 1 or generators[0].ifs or isinstance(node, ast.DictComp):
        return None
    source = it.evaluate(generators[0].iter)
    if not isinstance(source, Seq) or source.open or len(source.items) > MAX_ALTERNATIVES:
        return None
    items: list[Value] = []
    for value in source.items:
        if not all(isinstance(part, Const) for part in (value.items if isinstance(value, Seq) else (value,))):
            return None
        assign(it, generators[0].target, value)
        item = it.evaluate(getattr(node, "elt"))  # noqa: B009 - one of three node classes that have it
        if not isinstance(item, Const) and not (item == UNKNOWN and isinstance(node, ast.GeneratorExp)):
            return None
        items.append(item)
    return Seq(tuple(items))


def _lambda(it: "Interpreter", node: ast.Lambda) -> Value:
    return calls.define(it, node, ())


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


_ATTRIBUTES: dict[type[Any], Callable[["Interpreter", Any, str, ast.AST], Value]] = {
    ExternalName: _external_attribute,
    Ref: _thing_attribute,
    OneOf: _attribute_of_each,
    Module: _module_attribute,
    Class: _class_attribute,
    Element: _part_attribute,
    Method: _method_attribute,
    **dict.fromkeys((Map, Seq, Const, Dtype, Device), _plain_method),
}
"""By the kind of owner: one that is not known has attributes that are not known."""
HANDLERS: dict[type[ast.expr], Callable[["Interpreter", Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Call: calls.call,
    ast.IfExp: _if_expression,
    ast.BoolOp: _bool_operation,
    ast.UnaryOp: operators.unary,
    ast.BinOp: operators.binary,
    ast.Compare: operators.compare,
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
