"""Methods of strings, lists and dicts whose content is known."""

import ast
from typing import TYPE_CHECKING

from preflight.script.bounds import MAX_TEXT
from preflight.script.interpreter.assignments import insert, put_back
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.texts import formatted, joined
from preflight.script.interpreter.values import (
    NONE,
    UNKNOWN,
    Const,
    Map,
    Seq,
    Value,
    join,
    merged,
)

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter


def call_builtin_method(it: "Interpreter", owner: Value, name: str, seen: Call) -> Value:
    """A method of a string, list or dict whose content is known."""
    if isinstance(owner, Const) and isinstance(owner.value, str):
        return _text_method(owner.value, name, seen)
    if isinstance(owner, Map):
        return _map_method(it, owner, name, seen)
    if isinstance(owner, Seq) and name == "insert" and len(seen.args) == 2:
        if isinstance(seen.node.func, ast.Attribute):
            insert(it, seen.node.func.value, owner, *seen.args)
        return NONE
    if isinstance(owner, Seq) and name in ("append", "extend"):
        added = seen.args[-1] if seen.args else UNKNOWN
        item = it.library.element(it, added) if name == "extend" else added
        _rebind(it, seen, Seq((*owner.items, item), owner.open or name == "extend"))
        return NONE
    return UNKNOWN


def _rebind(it: "Interpreter", seen: Call, value: Value) -> None:
    if isinstance(seen.node.func, ast.Attribute):
        put_back(it, seen.node.func.value, value)


def _text_method(text: str, name: str, seen: Call) -> Value:
    if name in ("read_text", "open", "resolve", "expanduser", "as_posix", "absolute"):
        return Const(text)  # of a path, which its text represents
    if name == "format":
        return UNKNOWN if seen.open else formatted(text, seen.args, seen.named(), seen.place)
    if name == "join":
        return joined(text, seen.args[0] if seen.args else UNKNOWN)
    texts = [item.value for item in seen.args if isinstance(item, Const) and isinstance(item.value, str)]
    if len(texts) != len(seen.args):
        return UNKNOWN
    if name == "replace" and (len(texts) != 2 or text.count(texts[0]) * len(texts[1]) > MAX_TEXT):
        return UNKNOWN
    if name in ("lower", "upper", "strip", "lstrip", "rstrip", "removeprefix", "replace"):
        try:
            return Const(getattr(text, name)(*texts))
        except (TypeError, ValueError):
            return UNKNOWN
    if name in ("startswith", "endswith") and texts:
        return Const(getattr(text, name)(texts[0]))
    if name == "split" and len(texts) <= 1:
        return Seq(tuple(Const(item) for item in text.split(texts[0] if texts else None)))
    return UNKNOWN


def _map_method(it: "Interpreter", owner: Map, name: str, seen: Call) -> Value:
    key = seen.get("key", 0)
    if name in ("get", "pop", "setdefault") and key is not None:
        fallback = seen.get("default", 1) or NONE
        if isinstance(key, Const):
            found = owner.get(key.value)
            if name == "pop":
                kept = tuple(item for item in owner.items if item[0] != key.value)
                _rebind(it, seen, Map(kept, owner.open, owner.places))
            if found is not None:
                return found
            if name == "setdefault":
                places = {**owner.places, key.value: seen.place}
                _rebind(it, seen, Map((*owner.items, (key.value, fallback)), owner.open, places))
            return join((fallback, UNKNOWN)) if owner.open else fallback
        return join((*(value for _, value in owner.items), fallback, UNKNOWN))
    if name == "update":
        extra = seen.args[0] if seen.args else Map(())
        unknown = not isinstance(extra, Map) or seen.open
        new = merged(owner, extra) if isinstance(extra, Map) else owner
        both = merged(new, seen.named())
        _rebind(it, seen, Map(both.items, both.open or unknown, both.places))
        return NONE
    if name == "copy":
        return owner
    if name == "items":
        return Seq(tuple(Seq((Const(item), value)) for item, value in owner.items), owner.open)
    if name == "values":
        return Seq(tuple(value for _, value in owner.items), owner.open)
    return Seq(tuple(Const(item) for item, _ in owner.items), owner.open) if name == "keys" else UNKNOWN
