"""Operators, and texts put together of parts: of values of which only a part may be known."""

import ast
import operator
import posixpath
import string
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.bounds import MAX_TEXT
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.rank_values import answer_by_rank, note_choice
from preflight.script.syntax_trees import unparse
from preflight.script.values import (
    Class,
    Const,
    Device,
    Dtype,
    Element,
    ExternalName,
    Func,
    Map,
    OneOf,
    RankValue,
    Ref,
    Scalar,
    Seq,
    Unknown,
    Value,
)
from preflight.script.values.constants import OF_NODE, OF_RANK, UNKNOWN
from preflight.script.values.operations import (
    as_bool,
    as_text,
    is_by_rank,
    is_none,
    list_values,
    may_be_rank,
    merge_maps,
)

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_GPUS = re.compile(r"device_count|gpus|local_world_size", re.IGNORECASE)
"""Names of the number of ranks in a node."""
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def apply_unary(it: Interpreter, node: ast.UnaryOp) -> Value:
    """Return `not x` and `-x` where x is known."""
    value = it.evaluate(node.operand)
    if isinstance(node.op, ast.Not):
        known = as_bool(value)
        value = answer_by_rank(value)
        if isinstance(value, RankValue):
            return RankValue(first=_opposite(answer=value.first), sure=_opposite(answer=value.sure))
        if known is None:
            return RankValue() if may_be_rank(value) else UNKNOWN
        return Const(not known, _default_among(it, value))
    if isinstance(node.op, ast.USub) and isinstance(value, Const) and isinstance(value.value, (int, float)):
        return Const(-value.value)
    return UNKNOWN


def _opposite(*, answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def apply_binary(it: Interpreter, node: ast.BinOp) -> Value:
    """Return `a + b` and the like; what a rank is part of differs from rank to rank."""
    left, right = it.evaluate(node.left), it.evaluate(node.right)
    template = as_text(left) if isinstance(node.op, ast.Mod) else None
    if template is not None:
        return format_percent(template, right, it.place(node))
    if isinstance(left, RankValue) or isinstance(right, RankValue):
        note_choice(it, node, left, right)
        text = left.value if isinstance(left, Const) else None
        if isinstance(text, str):
            return Device("cuda", of_rank=True, is_text=True) if text.startswith("cuda:") else RankValue()
        of_node = isinstance(node.op, ast.Mod) and _GPUS.search(unparse(node.right))
        return RankValue(of=OF_NODE if of_node else "")
    if type(left) is Unknown and type(right) is Unknown:
        return OF_RANK if is_by_rank(left) or is_by_rank(right) else UNKNOWN
    if isinstance(left, Map) and isinstance(right, Map) and isinstance(node.op, ast.BitOr):
        return merge_maps(left, right)
    if isinstance(left, Seq) and isinstance(right, Seq) and isinstance(node.op, ast.Add):
        return Seq((*left.items, *right.items), left.open or right.open)
    if (
        isinstance(left, (Seq, Element))
        and isinstance(right, (Seq, Element))
        and isinstance(node.op, ast.Add)
    ):
        return Seq((left, right), open=True)  # list(a.parameters()) + list(b.parameters())
    one, other = as_text(left), as_text(right)
    if isinstance(node.op, ast.Div) and one is not None and other is not None:
        return Const(posixpath.join(one, other))  # paths, which their texts represent
    operation = _BINARY.get(type(node.op))
    if operation and isinstance(left, Map) and isinstance(right, Const):
        return left  # a tensor of known dtype, by a number
    if operation and isinstance(left, Const) and isinstance(right, Const):
        return _calculated(operation, left.value, right.value, it.place(node))
    return OF_RANK if is_by_rank(left) or is_by_rank(right) else UNKNOWN


def _calculated(
    operation: Callable[[Any, Any], Any], left: Scalar, right: Scalar, place: CodeLocation
) -> Value:
    if isinstance(left, (str, bytes)) or isinstance(right, (str, bytes)):
        added = operation is operator.add and type(left) is type(right)
        if not added:
            return UNKNOWN  # "x" * n and "%1000000s" % "x" could be large, and are not needed
    try:
        result = operation(left, right)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return UNKNOWN
    return Const(result, place) if isinstance(result, (str, int, float, bool, bytes)) else UNKNOWN


def apply_compare(it: Interpreter, node: ast.Compare) -> Value:
    """Return whether `a < b <= c`, Unknown when reading cannot know."""
    left = it.evaluate(node.left)
    place = None
    for op, part in zip(node.ops, node.comparators, strict=True):
        right = it.evaluate(part)
        answer = _compared(it, op, left, right)
        place = place or _default_among(it, left, right)
        if answer is None:
            note_choice(it, node, left, right)
            told = (
                answer_by_rank(left, partial(_compared_with, it, op, right)) if len(node.ops) == 1 else left
            )
            return _by_rank(node, left, right) if told is left else told
        if answer is not True:
            return Const(value=False, place=place)
        left = right
    return Const(value=True, place=place)


def _by_rank(node: ast.Compare, left: Value, right: Value) -> Value:
    """Return what a comparison gives that is not known: whether it is one with rank 0, or with some rank."""
    of_left = may_be_rank(left)
    if not (of_left or may_be_rank(right)):
        return UNKNOWN
    if len(node.ops) > 1 or not of_left:
        return RankValue()
    asked = type(node.ops[0])
    if asked in (ast.In, ast.NotIn):
        numbers = _constants(right)
        first = isinstance(numbers, tuple) and 0 in numbers and all(item in (0, -1, None) for item in numbers)
        return RankValue(first=(asked is ast.In) if first else None)
    return RankValue(first=_FIRST_RANK.get((asked, right.value if isinstance(right, Const) else None)))


_FIRST_RANK: dict[tuple[type[ast.cmpop], Scalar], bool] = {
    **dict.fromkeys(((ast.Eq, 0), (ast.Is, 0), (ast.LtE, 0), (ast.Lt, 1)), True),
    **dict.fromkeys(((ast.NotEq, 0), (ast.IsNot, 0), (ast.Gt, 0), (ast.GtE, 1)), False),
}
"""Comparisons with a rank, and whether they hold on rank 0 only, or on all others."""


def _default_among(it: Interpreter, *values: Value) -> CodeLocation | None:
    """Return where an option's default is written that is one of these: what it decides holds without it."""
    if it.options.places:
        for value in values:
            if type(value) is Const and value.place in it.options.places:
                return value.place
    return None


def _compared(it: Interpreter, op: ast.cmpop, left: Value, right: Value) -> bool | None:
    if type(left) is not OneOf and type(right) is not OneOf:
        return _compared_one(it, op, left, right)
    answers = {_compared_one(it, op, one, other) for one in list_values(left) for other in list_values(right)}
    return answers.pop() if len(answers) == 1 else None


def _compared_with(it: Interpreter, op: ast.cmpop, right: Value, left: Value) -> bool | None:
    return _compared(it, op, left, right)


def _compared_one(it: Interpreter, op: ast.cmpop, left: Value, right: Value) -> bool | None:
    if isinstance(op, (ast.In, ast.NotIn)):
        inside = _contains(it, right, left)
        return inside if inside is None or isinstance(op, ast.In) else not inside
    if isinstance(left, RankValue) and isinstance(right, Const):
        return _rank_against(op, right.value)
    if isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
        same = is_same(left, right)
        return same if same is None or isinstance(op, (ast.Is, ast.Eq)) else not same
    try:
        return bool(_COMPARE[type(op)](_constants(left), _constants(right)))
    except TypeError:  # None, which what is not known is too, has no order
        return None


def _constants(value: Value) -> Any:
    """Return a constant, or a tuple of constants, as itself."""
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Seq) and not value.open and all(isinstance(item, Const) for item in value.items):
        return tuple(item.value for item in value.items if isinstance(item, Const))
    return None


def _rank_against(op: ast.cmpop, value: Scalar) -> bool | None:
    """A rank is never negative and never None."""
    if value is None or (isinstance(value, int) and value < 0):
        if isinstance(op, (ast.Eq, ast.Is, ast.Lt, ast.LtE)):
            return False
        if isinstance(op, (ast.NotEq, ast.IsNot, ast.Gt, ast.GtE)):
            return True
    if value == 0 and isinstance(op, ast.GtE):
        return True
    return None


def is_same(left: Value, right: Value) -> bool | None:
    """Return whether `left == right`, None when reading cannot know."""
    left, right = _actual(left), _actual(right)
    one, other = type(left), type(right)
    if one is Unknown or other is Unknown:
        return None
    if one is ExternalName and other is ExternalName:
        named = all(getattr(item, "name", "").startswith("builtins.") for item in (left, right))
        return left == right if left == right or named else None  # another name may be the same thing
    if one in _COMPARED and other in _COMPARED:
        if one in (Seq, Map) and other in (Seq, Map):
            return None
        if one is Device and other is Const and not is_none(right):
            return None
        return left == right
    return left == right if is_none(left) or is_none(right) else None  # a function, a rank: not None


_COMPARED = frozenset({Const, Dtype, Device, Seq, Map, Ref, Func, Class})


def _actual(value: Value) -> Value:
    """Return the dtype that `next(model.parameters()).dtype` is, Unknown when parameters may differ."""
    if isinstance(value, Dtype) and value.name in ("own", "checkpoint"):
        return Dtype(value.actual) if value.actual else UNKNOWN
    return value


def _contains(it: Interpreter, whole: Value, item: Value) -> bool | None:
    if isinstance(whole, ExternalName):
        found = it.library.subscript(it, f"{whole.name}.__contains__", item)
        return as_bool(found) if isinstance(found, Const) else None
    if isinstance(whole, Const) and isinstance(whole.value, str) and isinstance(item, Const):
        return item.value in whole.value if isinstance(item.value, str) else None
    if isinstance(whole, Seq) and not isinstance(item, (Const, Dtype)):
        return None
    if isinstance(whole, Seq):
        answers = [is_same(item, other) for other in whole.items]
        if True in answers:
            return True
        return None if whole.open or None in answers else False
    if isinstance(whole, Map) and isinstance(item, Const):
        return True if whole.get(item.value) is not None else (None if whole.open else False)
    return None


_MAX_MADE = 4 * MAX_TEXT  # no longer text is made; what is longer than MAX_TEXT is reported where it is held
_PERCENT = re.compile(r"%(?:\((\w+)\))?([sdi%])")


def join_parts(parts: Iterable[Value], place: CodeLocation | None = None) -> Value:
    """Return the text of these parts; what a rank is part of differs from rank to rank."""
    text = ""
    ranked = unknown = False
    for value in parts:
        if len(text) > _MAX_MADE:
            return UNKNOWN
        if isinstance(value, Const):
            text += str(value.value)
        elif is_by_rank(value):
            ranked = True
        else:
            unknown = True
    if ranked and text in ("cuda:", "cuda"):
        return Device("cuda", of_rank=True, is_text=True)
    if ranked:
        return RankValue()
    return UNKNOWN if unknown else Const(text, place)


def format_text(text: str, given: Iterable[Value], named: Map, place: CodeLocation) -> Value:
    """Return `text.format(*given, **named)`; widths could make it large, and are not needed."""
    items = list(given)
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError:
        return UNKNOWN
    parts: list[Value] = []
    for before, name, spec, way in fields:
        parts.append(Const(before))
        if name is None:
            continue
        number = int(name) if name.isdigit() else sum(field[1] == "" for field in fields[: len(parts) // 2])
        if spec or way or (name and not name.isidentifier() and not name.isdigit()):
            return UNKNOWN
        known = name.isidentifier() and named.get(name)
        parts.append(known or (items[number] if number < len(items) and not name.isidentifier() else UNKNOWN))
    return join_parts(parts, place)


def format_percent(text: str, value: Value, place: CodeLocation) -> Value:
    """Return `text % value` where only %s, %d, %i and %(name)s occur."""
    given: list[Value] = list(value.items) if isinstance(value, Seq) else [value]
    if isinstance(value, Seq) and value.open:
        return UNKNOWN
    return join_parts(_percent_parts(text, given, value), place)


def _percent_parts(text: str, given: list[Value], value: Value) -> Iterator[Value]:
    begin = 0
    for found in _PERCENT.finditer(text):
        yield Const(text[begin : found.start()])
        begin = found.end()
        if found[2] == "%":
            yield Const("%")
        elif found[1]:
            yield (value.get(found[1]) if isinstance(value, Map) else None) or UNKNOWN
        else:
            yield given.pop(0) if given else UNKNOWN
    unused = isinstance(value, Seq) and given  # then it is a list, and written whole
    yield UNKNOWN if unused or "%" in text[begin:] else Const(text[begin:])


def join_text(separator: str, items: Value) -> Value:
    """Return `separator.join(items)`."""
    if not isinstance(items, Seq) or items.open:
        return UNKNOWN
    parts: list[Value] = []
    for item in items.items:
        parts += [Const(separator), item] if parts else [item]
    return join_parts(parts)
