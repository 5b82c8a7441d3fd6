"""The configuration of hydra: a file or a stored node, with what its list of defaults names of groups."""

import posixpath

from preflight.script.interpreter import classes, config_files
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter, unwrap_value
from preflight.script.interpreter.values import (
    NONE,
    UNKNOWN,
    Class,
    Const,
    HeapObject,
    Map,
    Ref,
    Seq,
    Value,
    as_text,
    merge_maps,
)

_STORE = -2  # the thing on the heap that holds what the script gives hydra's ConfigStore, by group and name
_MAX_DEPTH = 3  # lists of defaults in one another that are followed


def open_config_store(it: Interpreter, call: Call) -> Value:
    """Return the store: one for the whole program."""
    if it.thing(_STORE) is None:
        it.put(_STORE, HeapObject("config store", call.place))
    return Ref(_STORE)


def store_config(it: Interpreter, call: Call) -> Value:
    """ConfigStore.instance().store(group="model", name="small", node=Small)."""
    name, group = as_text(call.get("name", 0)), as_text(call.get("group", 2)) or ""
    if name is not None:
        it.change(_STORE, **{f"{group}/{name.removesuffix('.yaml')}": call.get("node", 1) or UNKNOWN})
    return NONE


def compose_config(it: Interpreter, call: Call) -> Value:
    """Return what hydra.main(config_path, config_name) passes to its function, Unknown where nothing is."""
    folder, name = as_text(call.get("config_path", 0)), as_text(call.get("config_name", 1))
    return UNKNOWN if name is None else _Composition(it, call, folder or "").config("", name, _MAX_DEPTH)


class _Composition:
    """The configuration of one call, in which hydra takes each file or node once."""

    def __init__(self, it: Interpreter, call: Call, folder: str) -> None:
        self._it, self._call, self._folder = it, call, folder
        self._taken: set[str] = set()

    def config(self, group: str, name: str, depth: int) -> Value:
        """Return what a name of a group stands for, with its own list of defaults."""
        key = f"{group}/{name.removesuffix('.yaml')}"
        if key in self._taken:
            return UNKNOWN
        self._taken.add(key)
        path = posixpath.join(self._folder, f"{key.removeprefix('/')}.yaml")
        found = config_files.load_config(self._it, Const(path))
        if found == UNKNOWN:
            found = _stored(self._it, self._call, key)
        listed = found.get("defaults") if isinstance(found, Map) else self._it.attr(found, "defaults")
        for item in listed.items if isinstance(listed, Seq) and depth else ():
            found = self._with_default(group, found, item, depth - 1)
        return found

    def _with_default(self, group: str, whole: Value, item: Value, depth: int) -> Value:
        """Return a configuration with one entry of its list of defaults: `base`, or `model: small`."""
        name = as_text(item)
        if name is not None:  # of the same group
            under = self.config(group, name, depth) if name != "_self_" else UNKNOWN
            return merge_maps(under, whole) if isinstance(under, Map) and isinstance(whole, Map) else whole
        key, chosen = _choice(item)
        if not key or chosen is None:
            return whole
        inner = self.config(f"{group}/{key}" if group else key, chosen, depth)
        if inner == UNKNOWN:
            return whole
        if isinstance(whole, Ref):
            self._it.change(whole.id, **{key: inner})
        elif isinstance(whole, Map):
            own = whole.get(key)
            if isinstance(own, Map) and isinstance(inner, Map):
                inner = merge_maps(inner, own)
            others = ((word, value) for word, value in whole.items if word != key)
            return Map((*others, (key, inner)), whole.open, whole.places)
        return whole


def _stored(it: Interpreter, call: Call, key: str) -> Value:
    node = it.attr(_STORE, key, UNKNOWN)
    if isinstance(node, Class):
        return classes.instantiate(it, node, unwrap_value(it, call.node, ()))
    return node if isinstance(node, (Map, Ref)) else UNKNOWN


def _choice(item: Value) -> tuple[str, str | None]:
    """Return the group and the name that `model: small` chooses; a group in another package is left out."""
    if not isinstance(item, Map) or len(item.items) != 1:
        return "", None
    key, value = item.items[0]
    group = str(key).removeprefix("optional ")
    return (group, as_text(value)) if group.isidentifier() else ("", None)
