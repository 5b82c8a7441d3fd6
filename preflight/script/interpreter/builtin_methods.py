"""Methods of strings, lists and dicts whose content is known."""

import ast
from pathlib import PurePosixPath

from preflight.script.bounds import MAX_TEXT
from preflight.script.interpreter import written_files
from preflight.script.interpreter.assignments import insert_item, put_back
from preflight.script.interpreter.config_files import load_config
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.operators import format_text, join_text
from preflight.script.interpreter.rank_values import pick_key
from preflight.script.values import Const, Map, OneOf, Seq, Value
from preflight.script.values.constants import NONE, UNKNOWN
from preflight.script.values.operations import build_map, join, merge_maps


def call_builtin_method(it: Interpreter, owner: Value, name: str, seen: Call) -> Value:
    """A method of a string, list or dict whose content is known, or one of several."""
    if isinstance(owner, OneOf):
        return _of_several(it, owner, name, seen)
    if isinstance(owner, Const) and isinstance(owner.value, str):
        if name in written_files.METHODS:
            written_files.note_method(it, name, owner, seen)
        return _text_method(owner, owner.value, name, seen)
    if isinstance(owner, Map):
        return _map_method(it, owner, name, seen)
    if isinstance(owner, Seq):
        return _list_method(it, owner, name, seen)
    return UNKNOWN


_CHANGES = frozenset(
    {"append", "extend", "insert", "remove", "clear", "reverse", "sort", "pop", "setdefault", "update"}
)


def _of_several(it: Interpreter, owner: OneOf, name: str, seen: Call) -> Value:
    """Call a method of each that the owner may be; what changes it changes each."""
    if name not in _CHANGES or not isinstance(seen.node.func, ast.Attribute):
        return join([call_builtin_method(it, item, name, seen) for item in owner.values])
    results, contents, target = [], [], seen.node.func.value
    for item in owner.values:
        put_back(it, target, item)
        results.append(call_builtin_method(it, item, name, seen))
        contents.append(it.evaluate(target))
    put_back(it, target, join(contents))
    return join(results)


def _list_method(it: Interpreter, owner: Seq, name: str, seen: Call) -> Value:
    first = seen.first
    if name == "insert" and len(seen.args) == 2 and isinstance(seen.node.func, ast.Attribute):
        insert_item(it, seen.node.func.value, owner, *seen.args)
        return NONE
    if name == "append":
        _rebind(it, seen, Seq((*owner.items, first), owner.open))
        return NONE
    if name == "extend":
        more = first if isinstance(first, Seq) else Seq((it.library.element(it, first),), open=True)
        _rebind(it, seen, Seq((*owner.items, *more.items), owner.open or more.open))
        return NONE
    if name == "pop":
        return _popped(it, owner, seen)
    if name == "copy":
        return owner
    if name in ("remove", "clear", "reverse", "sort"):
        _rebind(it, seen, Seq(owner.items, open=True))
        return NONE
    if name == "index" and isinstance(first, Const) and not owner.open and first in owner.items:
        return Const(owner.items.index(first))
    return UNKNOWN


def _popped(it: Interpreter, owner: Seq, seen: Call) -> Value:
    """list.pop(): the last item, where no turn of a loop takes another."""
    given = seen.args[0] if seen.args else Const(-1)
    place = given.value if isinstance(given, Const) and isinstance(given.value, int) else None
    if owner.open or it.open_loops or place not in (0, -1) or not owner.items:
        _rebind(it, seen, Seq(owner.items, open=True))
        return it.library.element(it, owner)
    _rebind(it, seen, Seq(owner.items[1:] if place == 0 else owner.items[:-1]))
    return owner.items[place]


def _rebind(it: Interpreter, seen: Call, value: Value) -> None:
    if isinstance(seen.node.func, ast.Attribute):
        put_back(it, seen.node.func.value, value)


_PATH_METHODS = frozenset({"read_text", "open", "resolve", "expanduser", "as_posix", "absolute"})
_PATH_PARTS = frozenset({"with_name", "with_suffix", "with_stem"})
_TEXT_METHODS = frozenset(
    {
        *("lower", "upper", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace", "title"),
        *("casefold", "capitalize", "startswith", "endswith", "split", "rsplit", "partition", "rpartition"),
        *("isdigit", "isnumeric", "find", "count"),
    }
)
"""What they give is no longer than what they are given, `replace` apart."""


def _text_method(owner: Const, text: str, name: str, seen: Call) -> Value:
    if name in _PATH_METHODS:
        return owner  # of a path, which its text represents
    if name == "format":
        rest = seen.open and any(isinstance(item, ast.Starred) for item in seen.node.args)
        return UNKNOWN if rest else format_text(text, seen.args, seen.get_keywords(), seen.place)
    if name == "join":
        return join_text(text, seen.first)
    given = [item.value for item in seen.args if isinstance(item, Const)]
    if name not in _TEXT_METHODS | _PATH_PARTS or len(given) != len(seen.args) or seen.kwargs or seen.open:
        return UNKNOWN
    if name == "replace" and (not given or text.count(str(given[0])) * len(str(given[-1])) > MAX_TEXT):
        return UNKNOWN
    try:
        made = getattr(PurePosixPath(text) if name in _PATH_PARTS else text, name)(*given)
    except (TypeError, ValueError, IndexError):
        return UNKNOWN
    if isinstance(made, (list, tuple)):
        return Seq(tuple(Const(item, owner.place) for item in made))
    return Const(str(made) if isinstance(made, PurePosixPath) else made, owner.place)


_COPIES = frozenset({"copy", "clone", "to_dict", "toDict", "copy_and_resolve_references"})
"""Of dict, and of yacs, addict, munch and ml_collections."""


def _entry(section: Value, option: Value) -> Value | None:
    """Return an entry of a section, for configparser's `get(section, option)`."""
    return section.get(option.value) if isinstance(section, Map) and isinstance(option, Const) else None


def _map_method(it: Interpreter, owner: Map, name: str, seen: Call) -> Value:
    if name.startswith("read"):  # of configparser: read(), read_file(), read_dict()
        _rebind(it, seen, merge_maps(owner, build_map(load_config(it, seen.first))))
        return NONE
    key = seen.get("key", 0)
    if name in ("get", "pop", "setdefault") and key is not None:
        fallback = seen.get("default", 1) or NONE
        if isinstance(key, Const):
            found = owner.get(key.value)
            if name == "pop":
                kept = tuple(item for item in owner.items if item[0] != key.value)
                _rebind(it, seen, Map(kept, owner.open, owner.places))
            if found is not None:
                return _entry(found, fallback) or found if name == "get" else found
            if name == "setdefault":
                places = {**owner.places, key.value: seen.place}
                _rebind(it, seen, Map((*owner.items, (key.value, fallback)), owner.open, places))
            return join((fallback, UNKNOWN)) if owner.open else fallback
        return pick_key(key, owner, fallback)
    if name == "update":
        given = build_map(seen.args[0]) if seen.args else Map(())
        both = merge_maps(merge_maps(owner, given), seen.get_keywords())
        _rebind(it, seen, Map(both.items, both.open or seen.open, both.places))
        return NONE
    if name in _COPIES:
        return owner
    if name == "items":
        return Seq(tuple(Seq((Const(item), value)) for item, value in owner.items), owner.open)
    if name == "values":
        return Seq(tuple(value for _, value in owner.items), owner.open)
    return Seq(tuple(Const(item) for item, _ in owner.items), owner.open) if name == "keys" else UNKNOWN
