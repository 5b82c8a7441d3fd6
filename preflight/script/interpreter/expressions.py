"""Expressions of the language, as values that may be known, partly known or unknown."""

import ast
from collections.abc import Callable, Sequence
from typing import Any

from preflight.facts.script import CodeLocation
from preflight.script.interpreter import calls, classes, operators, rank_values, switches
from preflight.script.interpreter.assignments import assign_target
from preflight.script.interpreter.attributes import get_attribute, subscript_class
from preflight.script.interpreter.branches import is_of_several, read_choice, read_rest
from preflight.script.interpreter.contexts import NO_SYNC
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.operators import join_parts
from preflight.script.interpreter.rank_names import note_use
from preflight.script.values import (
    Class,
    Const,
    Element,
    ExternalName,
    Map,
    Module,
    OneOf,
    RankValue,
    Ref,
    Scalar,
    Seq,
    Value,
)
from preflight.script.values.constants import NONE, OF_RANK, UNKNOWN
from preflight.script.values.heap import rename_attribute
from preflight.script.values.operations import (
    MAX_ALTERNATIVES,
    as_bool,
    as_iterable,
    as_text,
    build_map,
    is_by_rank,
    join,
    list_values,
)

_VALUE = "gpulaunch_value"  # where a constant's node keeps its value
_MAX_OBJECTS = 4  # objects that a comprehension goes over one by one; what is done to more is read once
_MAX_WRITTEN = 200  # items of a literal that are read: longer ones are names of classes, words, colours


def _constant(it: Interpreter, node: ast.Constant) -> Value:
    if _VALUE not in node.__dict__:
        if node.value is Ellipsis or isinstance(node.value, complex):
            return UNKNOWN
        node.__dict__[_VALUE] = Const(node.value, it.place(node))
    value: Const = node.__dict__[_VALUE]
    return value


_NO_NAMES: dict[str, Value] = {}


def _name(it: Interpreter, node: ast.Name) -> Value:
    value = it.state.frames.get(it.frame, _NO_NAMES).get(node.id) or it.lookup(node.id)
    if node.id in it.alone.frames:
        note_use(it, node, node.id)
    if value is not UNKNOWN or not it.starred:
        return value
    found = (it.library.find_export(it, f"{module}.{node.id}", node) for module in it.starred)
    return next((item for item in found if item is not None), UNKNOWN)


def _attribute(it: Interpreter, node: ast.Attribute) -> Value:
    if (
        it.alone.frames
        and type(node.value) is ast.Name
        and (name := f"{node.value.id}.{node.attr}") in it.alone.frames
    ):
        note_use(it, node, name)
    return rank_values.mark_named_rank(
        it, node.attr, get_attribute(it, it.evaluate(node.value), node.attr, node)
    )


def _subscript(it: Interpreter, node: ast.Subscript) -> Value:
    owner = it.evaluate(node.value)
    if isinstance(node.slice, ast.Slice):
        if node.slice.lower and node.slice.step and is_by_rank(it.evaluate(node.slice.lower)):
            it.emit(ScriptEvent("part by rank", it.place(node)))
        return join(_slice(it, item, node.slice) for item in list_values(owner))
    key = it.evaluate(node.slice)
    if type(owner) is not OneOf:
        return _item(it, owner, key, node)
    return rank_values.map_alternatives(owner, lambda item: _item(it, item, key, node))


def _slice(it: Interpreter, owner: Value, node: ast.Slice) -> Value:
    ends = [it.evaluate(part) if part else NONE for part in (node.lower, node.upper, node.step)]
    numbers = [item.value for item in ends if isinstance(item, Const) and not isinstance(item.value, str)]
    text = as_text(owner)
    if len(numbers) == len(ends) and (text is not None or (isinstance(owner, Seq) and not owner.open)):
        cut: Any = slice(*numbers)
        try:
            return Seq(owner.items[cut]) if isinstance(owner, Seq) else Const((text or "")[cut])
        except (TypeError, ValueError):
            return UNKNOWN
    cut_by_rank = any(map(is_by_rank, ends))
    if isinstance(owner, Seq):
        return Seq((OF_RANK if cut_by_rank else it.library.element(it, owner),), open=True)
    return owner if isinstance(owner, Element) else OF_RANK if cut_by_rank or is_by_rank(owner) else UNKNOWN


def _item(it: Interpreter, owner: Value, key: Value, node: ast.Subscript) -> Value:
    match owner:
        case Module() if (name := as_text(key)) is not None:
            return get_attribute(it, owner, name, node)  # globals()["name"]
        case Class():
            return subscript_class(it, owner, key, node)
        case ExternalName():
            name = as_text(key) if owner.name.endswith(".__dict__") else None  # models.__dict__["resnet18"]
            module = ExternalName(owner.name.removesuffix(".__dict__"))
            if name:
                return get_attribute(it, module, name, node)
            return it.library.subscript(it, owner.name, key)
        case Map():
            return _item_of_map(owner, key)
        case Seq(items=items) if isinstance(key, RankValue) and len(set(items)) > 1:
            return RankValue() if all(isinstance(item, Const) for item in items) else OF_RANK
        case Seq(items=items) if (index := _index(key, items)) is not None:
            return items[index]
        case Const(value=str(text)) if (index := _index(key, text)) is not None:
            return Const(text[index])
        case Element(what=what):
            return UNKNOWN if what == "state" else owner  # a cast of an entry makes another tensor
        case Ref():
            return _item_of_object(it, owner, key, node)
    rank_values.note_part(it, node, key)
    return OF_RANK if is_by_rank(key) or is_by_rank(owner) else UNKNOWN


def _item_of_map(owner: Map, key: Value) -> Value:
    if isinstance(key, RankValue) and key.first is not None:
        ours, theirs = (owner.get(asked) or UNKNOWN for asked in (key.first, not key.first))
        return rank_values.split_by_rank(ours, theirs, first=True)
    keys = [item.value for item in list_values(key) if isinstance(item, Const)]
    if keys and len(keys) == len(list_values(key)):
        other = owner.get("*") or UNKNOWN  # of a comprehension over what is not known
        return join(owner.get(name) or other for name in keys)
    return rank_values.pick_key(key, owner)


def _item_of_object(it: Interpreter, owner: Ref, key: Value, node: ast.Subscript) -> Value:
    if it.kind(owner) == "instance":
        found = classes.call_method(it, owner, "__getitem__", node, key)
        fields = classes.list_fields(it, owner)
        return _item(it, fields, key, node) if found is None and fields else found or UNKNOWN
    if isinstance(key, Const) and it.kind(owner) == "model":
        return it.state.heap[owner.id].get(rename_attribute(str(key.value)), UNKNOWN)
    return OF_RANK if is_by_rank(key) else UNKNOWN


def _index(key: Value, items: Sequence[object]) -> int | None:
    """Return the index that a key is, None where it is not one of these items."""
    index = key.value if isinstance(key, Const) and isinstance(key.value, int) else None
    return index if index is not None and -len(items) <= index < len(items) else None


def _if_expression(it: Interpreter, node: ast.IfExp) -> Value:
    value = it.evaluate(node.test)
    known = as_bool(value)
    if known is not None:
        switches.note_closed(it, node.test, [node.orelse if known else node.body])
        return it.evaluate(node.body if known else node.orelse)
    return read_choice(it, node, value)


def _bool_operation(it: Interpreter, node: ast.BoolOp) -> Value:
    stops_at = isinstance(node.op, ast.Or)
    seen: list[Value] = []
    before: list[tuple[ast.expr, Value]] = []
    value: Value = UNKNOWN
    for part in node.values:
        follows, asked = before and isinstance(part, ast.Call), len(it.tests)
        it.tests += [above for above, _ in before]  # on which it depends whether this part is read
        value = read_rest(it, node.op, before, part) if follows else it.evaluate(part)
        del it.tests[asked:]
        known = as_bool(value)
        if known is stops_at:  # of a condition the answer is known, whatever the parts before it were
            answers = isinstance(value, Const) and isinstance(value.value, bool)
            return value if answers or not seen else join((*seen, value))
        if known is None:
            before.append((part, value))
            if value is UNKNOWN and is_of_several(it, node.op, part):
                value = seen[-1] if seen else value
            else:
                seen.append(value)
    said = [rank_values.answer_by_rank(item) for item in seen]
    firsts = (item for item in said if isinstance(item, RankValue) and item.first is not stops_at)
    first = next((item for item in firsts if item.first is not None), None)
    if first is not None and any(
        not isinstance(item, RankValue) or item.first is not first.first for item in said
    ):
        return RankValue(first=first.first, sure=not stops_at)  # the other parts may have been to blame
    return first or (join((*seen, value)) if seen else value)


def _joined_text(it: Interpreter, node: ast.JoinedStr) -> Value:
    return join_parts([_written_part(it, part) for part in node.values], it.place(node))


def _written_part(it: Interpreter, node: ast.expr) -> Value:
    """Return a part of an f-string; a width, a precision or `!r` changes what a known value is written as."""
    if not isinstance(node, ast.FormattedValue):
        return it.evaluate(node)
    value = it.evaluate(node.value)
    spec = as_text(it.evaluate(node.format_spec)) if node.format_spec else ""
    as_it_is = spec in ("", "d", "s") and node.conversion in (-1, ord("s"))
    return value if as_it_is or not isinstance(value, Const) else UNKNOWN


def _sequence(it: Interpreter, node: ast.expr) -> Value:
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


def _dict(it: Interpreter, node: ast.Dict) -> Value:
    items: dict[Scalar, Value] = {}
    places: dict[Scalar, CodeLocation] = {}
    is_open = len(node.keys) > _MAX_WRITTEN
    for key, part in zip(node.keys[:_MAX_WRITTEN], node.values[:_MAX_WRITTEN], strict=True):
        value = it.evaluate(part)
        if key is None:
            held = build_map(value)
            items |= dict(held.items)
            places |= held.places
            is_open = is_open or held.open
            continue
        name = it.evaluate(key)
        if isinstance(name, Const):
            items[name.value] = value
            places[name.value] = it.place(key)
        else:
            is_open = True
    return Map(tuple(items.items()), is_open, places)


def _comprehension(it: Interpreter, node: ast.expr) -> Value:
    frame = it.make_frame(it.frame)
    outer, it.frame = it.frame, frame
    drawn = it.drawn
    try:
        generators = getattr(node, "generators", [])
        source = it.evaluate(generators[0].iter)
        exact = _known_items(it, node, generators, source)
        if exact is not None:
            return exact
        chosen: list[Value] = []
        for number, generator in enumerate(generators):
            value = it.library.element(it, it.evaluate(generator.iter) if number else source)
            assign_target(it, generator.target, value)
            chosen += [it.evaluate(condition) for condition in generator.ifs]
        if isinstance(node, ast.DictComp):
            it.evaluate(node.key)
            return Map((("*", it.evaluate(node.value)),), open=True)
        item = it.evaluate(getattr(node, "elt"))  # noqa: B009 - one of three node classes that have it
    finally:
        it.frame, it.drawn = outer, drawn
        it.state.drop(frame)
    if isinstance(item, Element) and item.what == "parameter":
        return Element(item.of, "parameters")
    if isinstance(item, Const) and isinstance(item.value, bool) and None in map(as_bool, chosen):
        item = UNKNOWN  # none may have been chosen
    if isinstance(node, ast.GeneratorExp) and it.kind(source) == "loader":
        return source  # what is drawn from it counts where it is drawn
    return Seq((OF_RANK if any(map(is_by_rank, chosen)) else item,), open=True)


def _known_items(
    it: Interpreter, node: ast.expr, generators: list[ast.comprehension], source: Value
) -> Value | None:
    """Return what a comprehension makes of a few known items one by one, None of anything else."""
    if len(generators) != 1:
        return None
    source = as_iterable(source)
    is_open = isinstance(source, Seq) and source.open and isinstance(node, ast.DictComp)
    if not isinstance(source, Seq) or source.open is not is_open or len(source.items) > MAX_ALTERNATIVES:
        return None
    if len(source.items) > _MAX_OBJECTS and not isinstance(source.items[0], (Const, Seq)):
        return None
    rows: list[tuple[Value, Value]] = []
    for value in source.items:
        assign_target(it, generators[0].target, value)
        answers = [as_bool(it.evaluate(condition)) for condition in generators[0].ifs]
        if None in answers:
            return None
        if False not in answers:
            key = it.evaluate(node.key) if isinstance(node, ast.DictComp) else NONE
            made = node.value if isinstance(node, ast.DictComp) else getattr(node, "elt")  # noqa: B009
            rows.append((key, it.evaluate(made)))
    if not isinstance(node, ast.DictComp):
        return Seq(tuple(item for _, item in rows))
    made_of = build_map(Seq(tuple(Seq(row) for row in rows), is_open))
    return made_of if made_of.open is is_open and made_of.items else None


def _named(it: Interpreter, node: ast.NamedExpr) -> Value:
    value = it.evaluate(node.value)
    it.bind(node.target.id, value)
    return value


def _yield(it: Interpreter, node: ast.Yield) -> Value:
    value = it.evaluate(node.value) if node.value else NONE
    if it.ways.yields is not None:
        it.ways.yields.append(value)
        it.yielded_drawn = it.drawn
        kinds = tuple(it.contexts[it.ways.contexts :])
        if len(it.ways.yields) > 1:  # another yield of this call may be outside of no_sync()
            before, _ = it.yielded_in.get(it.stack[-1], ((), UNKNOWN))
            kinds = tuple(kind for kind in kinds if not kind.startswith(NO_SYNC) or kind in before)
        it.yielded_in[it.stack[-1]] = kinds, it.default_dtype
    return UNKNOWN


def _yield_from(it: Interpreter, node: ast.YieldFrom) -> Value:
    value = it.evaluate(node.value)
    if it.ways.yields is not None:
        it.ways.yields.append(it.library.element(it, value))
        it.yielded_drawn = it.drawn
    return UNKNOWN


def _through(it: Interpreter, node: ast.expr) -> Value:
    return it.evaluate(getattr(node, "value"))  # noqa: B009 - Await and Starred


HANDLERS: dict[type[ast.expr], Callable[[Interpreter, Any], Value]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Call: calls.evaluate_call,
    ast.IfExp: _if_expression,
    ast.BoolOp: _bool_operation,
    ast.UnaryOp: operators.apply_unary,
    ast.BinOp: operators.apply_binary,
    ast.Compare: operators.apply_compare,
    ast.JoinedStr: _joined_text,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension,
    ast.Lambda: lambda it, node: calls.define_function(it, node, ()),
    ast.NamedExpr: _named,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
    ast.Await: _through,
    ast.Starred: _through,
}
