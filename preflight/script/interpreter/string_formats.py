"""Texts that a script puts together of parts: f-strings, `%`, `.format()` and `.join()`."""

import string
from collections.abc import Iterable, Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.bounds import MAX_TEXT
from preflight.script.interpreter.values import UNKNOWN, Const, Device, Map, RankValue, Seq, Value, is_by_rank

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
