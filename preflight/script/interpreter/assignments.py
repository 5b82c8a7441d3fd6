"""Giving names, attributes, items and tuples of them a value."""

import ast
from dataclasses import replace
from functools import reduce

from preflight.script.interpreter import classes
from preflight.script.interpreter.interpreter import Interpreter, unwrap_value
from preflight.script.interpreter.rank_values import split_by_rank
from preflight.script.values import (
    Class,
    Const,
    Element,
    ExternalName,
    Map,
    Module,
    OneOf,
    Ref,
    Seq,
    Unknown,
    Value,
)
from preflight.script.values.constants import UNKNOWN
from preflight.script.values.heap import rename_attribute
from preflight.script.values.operations import join, list_values


def assign_target(it: Interpreter, target: ast.expr, value: Value) -> None:
    """Give a target (name, attribute, item, tuple of them) a value."""
    if isinstance(target, ast.Name):
        it.bind(target.id, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(it, target.elts, value)
    elif isinstance(target, ast.Starred):
        assign_target(it, target.value, Seq((value,), open=True))
    elif isinstance(target, ast.Attribute):
        whole = _whole_map(it.evaluate(target.value))
        if isinstance(whole, Map):  # of EasyDict and the like: an attribute is an entry
            _set_entry(it, target, whole, Const(target.attr), value)
            return
        for owner in list_values(whole):
            set_attribute(it, owner, target.attr, value, target)
    elif isinstance(target, ast.Subscript):
        _set_item(it, target, value)


def note_second_name(it: Interpreter, node: ast.Assign, value: Value) -> None:
    """A = b["c"], a = b = {}: one list or dict, and what is put into it by one name is in it by the other."""
    if type(value) not in (Map, Seq):
        return
    spelled = [(_spelled(part), part) for part in (*node.targets, node.value)]
    for name, part in spelled:
        others = [other for text, other in spelled if text and other is not part]
        if name and others:
            it.second_names[it.frame, name] = others


def _spelled(node: ast.expr) -> str:
    """Return a name, an attribute or an entry of one by a constant as text, "" for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = _spelled(node.value)
        return owner and f"{owner}.{node.attr}"
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner = _spelled(node.value)
        return owner and f"{owner}[{node.slice.value!r}]"
    return ""


def put_back(it: Interpreter, target: ast.expr, value: Value) -> None:
    """Give what an expression names a changed content: a list or dict is changed where it was made."""
    value = it.limit_value(value, target)
    others = it.second_names.get((it.frame, _spelled(target)), ()) if it.second_names else ()
    before = it.evaluate(target) if others else UNKNOWN
    _put_back(it, target, value)
    for other in others:
        if it.evaluate(other) is before:
            put_back(it, other, value)


def _put_back(it: Interpreter, target: ast.expr, value: Value) -> None:
    if isinstance(target, ast.Call) and getattr(target.func, "id", "") == "vars" and target.args:
        set_attribute(it, it.evaluate(target.args[0]), "__dict__", value, target)
        return
    if isinstance(target, ast.Call) and getattr(target.func, "attr", "") == "setdefault" and target.args:
        owner = ast.Subscript(getattr(target.func, "value"), target.args[0], ast.Store())  # noqa: B009
        target = ast.copy_location(owner, target)
    if not isinstance(target, ast.Name):
        assign_target(it, target, value)
        return
    frame: int | None = it.frame
    while frame is not None:
        if target.id in it.state.frames.get(frame, {}):
            it.state.names(frame)[target.id] = value
            it.filled.setdefault(frame, set()).add(target.id)
            return
        frame = it.parents.get(frame)


def begin_list(it: Interpreter, target: ast.expr, value: Value) -> None:
    """Put the first value into an entry that a dict makes when it is read, as defaultdict(list) does."""
    if isinstance(target, ast.Subscript) and isinstance(it.evaluate(target.value), Map):
        _set_item(it, target, Seq((value,)))


def _unpack(it: Interpreter, targets: list[ast.expr], value: Value) -> None:
    value = classes.list_fields(it, value) or value
    if isinstance(value, OneOf) and all(isinstance(item, Seq) for item in value.values):
        rows = [item.items for item in value.values if isinstance(item, Seq)]
        if all(len(row) == len(targets) for row in rows):
            for index, target in enumerate(targets):
                assign_target(it, target, join(row[index] for row in rows))
            return
    star = next((at for at, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    if isinstance(value, Seq) and not value.open:
        items: tuple[Value, ...] = value.items
        spare = len(items) - len(targets) + 1
        if star is not None and spare >= 0:
            items = (*items[:star], Seq(items[star : star + spare]), *items[star + spare :])
        if len(items) == len(targets):
            for target, item in zip(targets, items, strict=True):
                assign_target(it, target.value if isinstance(target, ast.Starred) else target, item)
            return
    part = it.library.element(it, value) if isinstance(value, (Element, Unknown)) else UNKNOWN
    for target in targets:
        assign_target(it, target, part)


def set_attribute(it: Interpreter, owner: Value, name: str, value: Value, node: ast.expr) -> None:
    """Give an attribute of an object, a class or a module a value."""
    if name == "__dict__" and isinstance(owner, Ref) and isinstance(value, Map):
        it.change(owner.id, **{str(key): item for key, item in value.items})
        return
    if name in it.setters and classes.call_method(it, owner, f"{name}.setter", node, value) is not None:
        return
    if isinstance(owner, (Ref, Element, ExternalName)):
        it.library.assign(it, owner, name, value, it.place(node))
    if isinstance(owner, Ref):
        it.change(owner.id, **{rename_attribute(name) if it.kind(owner) == "model" else name: value})
    elif isinstance(owner, Class) and owner.key in it.classes:
        # Of all paths and calls, before and after: either value may be the one.
        before = next((info.names[name] for info in it.mro(owner.key) if name in info.names), UNKNOWN)
        known = join((before, value))
        if isinstance(before, Map) and isinstance(value, Map):
            known = _widened(before, value)
        info = it.classes[owner.key]
        it.classes[owner.key] = replace(info, names={**info.names, name: known})
    elif isinstance(owner, Module):
        frame = it.modules.get(owner.path)
        if frame is not None:
            it.state.names(frame)[name] = value


def _widened(one: Map, other: Map, *, first: bool | None = None) -> Map:
    """Return a dict that has what either has: a registry of a class, filled entry by entry.

    `first`: whether the one is that of rank 0, and the other that of the others, or the reverse.
    """
    items = {**dict(other.items), **dict(one.items)}
    for key, there in other.items:
        here = items[key]
        items[key] = join((here, there)) if first is None else split_by_rank(here, there, first=first)
    return Map(tuple(items.items()), one.open or other.open, {**one.places, **other.places})


def _set_item(it: Interpreter, target: ast.Subscript, value: Value) -> None:
    owner, key = _whole_map(it.evaluate(target.value)), it.evaluate(target.slice)
    if isinstance(owner, ExternalName):
        it.library.call(it, f"{owner.name}.__setitem__", unwrap_value(it, target, (key, value)))
        return
    if classes.call_method(it, owner, "__setitem__", target, key, value) is not None:
        return
    if isinstance(owner, Map):
        _set_entry(it, target, owner, key, value)
    elif isinstance(owner, Seq):
        place = _index(owner, key)
        items = [
            value if index == place else item if place is not None else join((item, value))
            for index, item in enumerate(owner.items)
        ]
        put_back(it, target.value, Seq(tuple(items), owner.open or place is None))


def _index(owner: Seq, key: Value) -> int | None:
    """Return which item of a list a key names, None when that is not known."""
    number = key.value if isinstance(key, Const) and isinstance(key.value, int) else None
    if number is None or owner.open or not -len(owner.items) <= number < len(owner.items):
        return None
    return number % len(owner.items)


def insert_item(it: Interpreter, target: ast.expr, owner: Seq, key: Value, value: Value) -> None:
    """Put a value into a list that an expression names, as `list.insert` does."""
    count = len(owner.items)
    if isinstance(key, Const) and isinstance(key.value, int) and not owner.open:
        place = min(key.value, count) if key.value >= 0 else max(0, count + key.value)
        items = (*owner.items[:place], value, *owner.items[place:])
    else:
        items = (join((*owner.items, value)),) * (count + 1)
    put_back(it, target, Seq(items, owner.open))


def delete_item(it: Interpreter, target: ast.Subscript) -> None:
    """Remove an entry or item; where it is not known which, nothing is known of the rest."""
    owner, key = it.evaluate(target.value), it.evaluate(target.slice)
    if isinstance(owner, Map):
        if isinstance(key, Const):
            kept = tuple(item for item in owner.items if item[0] != key.value)
            put_back(it, target.value, Map(kept, owner.open, owner.places))
        else:
            put_back(it, target.value, Map((), open=True))
    elif isinstance(owner, Seq):
        place = _index(owner, key)
        items = () if place is None else (*owner.items[:place], *owner.items[place + 1 :])
        put_back(it, target.value, Seq(items, owner.open or place is None))


def _whole_map(value: Value) -> Value:
    """Return the dict that has what each of several has that a value may be; any other value as it is."""
    items = list_values(value)
    maps = [item for item in items if isinstance(item, Map)]
    if len(maps) == 2 and isinstance(value, OneOf) and value.held:
        return _widened(*maps, first=value.held.get(maps[0]))
    return reduce(_widened, maps) if len(maps) == len(items) else value


def _set_entry(
    it: Interpreter, target: ast.Subscript | ast.Attribute, owner: Map, key: Value, value: Value
) -> None:
    items, places = dict(owner.items), dict(owner.places)
    if isinstance(key, Const):
        items[key.value] = value
        places[key.value] = it.place(target)
    content = Map(tuple(items.items()), owner.open or not isinstance(key, Const), places)
    put_back(it, target.value, content)
