"""Attributes: of libraries' names, of objects and classes of the script, of constants."""

import ast
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from preflight.script.interpreter import calls, classes
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter, unwrap_value
from preflight.script.interpreter.rank_values import map_alternatives
from preflight.script.library_names import MODULE_API
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
    Method,
    Module,
    OneOf,
    RankValue,
    Ref,
    Seq,
    Unknown,
    Value,
)
from preflight.script.values.constants import OF_RANK, UNKNOWN
from preflight.script.values.heap import MODEL_FACTS, HeapObject, rename_attribute
from preflight.script.values.operations import MAX_ALTERNATIVES, as_text, is_by_rank

_STAY = frozenset(
    {"mean", "sum", "detach", "clone", "float", "long", "double", "unsqueeze", "reshape", "view"}
)
"""Methods that give a tensor where theirs is."""
_PROPERTIES = frozenset({ExternalName("builtins.property"), ExternalName("functools.cached_property")})


def get_attribute(it: Interpreter, owner: Value, name: str, node: ast.AST) -> Value:
    """Return `owner.name`."""
    read = _ATTRIBUTES.get(type(owner))
    return UNKNOWN if read is None else read(it, owner, name, node)


def _external_attribute(it: Interpreter, owner: ExternalName, name: str, node: ast.AST) -> Value:
    full = _inner_name(owner.name, name)
    known = it.library.constant(it, full.name, node)
    return full if known is None else known


@lru_cache(maxsize=4096)
def _inner_name(owner: str, name: str) -> ExternalName:
    """Return a library's name in another: each visit of `torch.nn.Linear` asks for the same two."""
    return ExternalName(f"{owner}.{name}")


def _module_attribute(it: Interpreter, owner: Module, name: str, _node: ast.AST) -> Value:
    if name == "__dict__":
        return owner  # its names, as those of globals()
    found = it.state.frames.get(it.modules.get(owner.path, -1), {}).get(name)
    folder = owner.path.removesuffix("__init__.py") + name
    if found is None and f"{folder}.py" in it.modules:
        return Module(f"{folder}.py")
    if found is None and any(path.startswith(f"{folder}/") for path in it.modules):
        return Module(f"{folder}/__init__.py")
    return UNKNOWN if found is None else found


def _method_attribute(it: Interpreter, owner: Method, name: str, _node: ast.AST) -> Value:
    if owner.name == "super":
        return Method(owner.owner, f"super.{name}")
    part = owner.owner
    if isinstance(part, Element) and part.what == "module" and owner.name not in MODULE_API:
        return it.library.attribute(it, part, name)  # `model.encoder.layer.float()`: a part of a part
    return UNKNOWN


def _plain_method(
    it: Interpreter, owner: Map | Seq | Const | Dtype | Device, name: str, node: ast.AST
) -> Value:
    if name == "value" and not isinstance(owner, (Map, Seq)):
        return owner  # of an Enum's member
    if isinstance(owner, Device):
        if name == "type":
            return Const(owner.kind)
        if name == "index":
            return RankValue() if owner.of_rank else Const(owner.index)
    if isinstance(owner, (Device, Dtype)):
        return UNKNOWN
    if isinstance(owner, Map) and (held := owner.get(name)) is not None:
        return held  # OmegaConf, Munch and the like: an entry is an attribute
    if isinstance(owner, Const) and not hasattr(owner.value, name):
        own = _of_member(it, owner, name, node)
        if own is not None:
            return own
    if name == "parent" and (text := as_text(owner)) is not None:
        return Const(str(PurePosixPath(text).parent))
    if name == "parents" and (text := as_text(owner)) is not None:
        folders = islice(PurePosixPath(text).parents, MAX_ALTERNATIVES)
        return Seq(tuple(Const(str(folder)) for folder in folders), open=True)
    return ExternalName(f"value.{name}")  # called with its owner in place by `calling`


def _of_member(it: Interpreter, member: Const, name: str, node: ast.AST) -> Value | None:
    """Return the name of an Enum's member, a property or a method that its class defines."""
    for key, info in it.classes.items():
        found = info.names.get(name)
        if not (name == "name" or isinstance(found, Func)) or not classes.is_enum(it, Class(key, 0)):
            continue
        spelled = next((word for word, value in info.names.items() if value == member), None)
        if spelled is None:
            continue
        if not isinstance(found, Func):
            return Const(spelled)
        bound = Func(found.key, found.frame, member)
        return (
            calls.call_function(it, bound, unwrap_value(it, node, ())) if _is_property(it, found) else bound
        )
    return None


def map_fields(thing: HeapObject | None) -> Value:
    """Return `vars(thing)`: the attributes that reading knows, of what may have more."""
    if thing is None:
        return UNKNOWN
    named = ((name, value) for name, value in thing.attrs.items() if not name.startswith("__"))
    return Map(tuple(named), open=True)


def _class_attribute(it: Interpreter, owner: Class, name: str, _node: ast.AST) -> Value:
    if name in ("__name__", "__qualname__") and owner.key in it.classes:
        return Const(it.classes[owner.key].node.name)
    for info in it.mro(owner.key):
        if name in info.names:
            value = info.names[name]
            if isinstance(value, Func) and _has_decorator(it, value, "classmethod"):
                return Func(value.key, value.frame, owner)
            return value
    base = it.library_base(owner.key)
    return ExternalName(f"{base}.{name}") if base else UNKNOWN


def _function_attribute(it: Interpreter, owner: Func, name: str, _node: ast.AST) -> Value:
    info = it.functions.get(owner.key)
    named = name in ("__name__", "__qualname__") and info is not None
    return Const(getattr(info.node, "name", "<lambda>")) if named and info is not None else UNKNOWN


def _has_decorator(it: Interpreter, func: Func, name: str) -> bool:
    info = it.functions.get(func.key)
    return info is not None and ExternalName(f"builtins.{name}") in info.decorators


def _thing_attribute(it: Interpreter, owner: Ref, name: str, node: ast.AST) -> Value:
    thing = it.thing(owner)
    if thing is None:
        return UNKNOWN
    of_wrapper = (owner.shared or "prepared" in thing.attrs) and name not in MODULE_API
    if of_wrapper and isinstance(node, ast.Attribute):
        values = {"owner": Const(unparse(node.value)), "shared": Const(owner.shared)}
        it.emit(ScriptEvent("wrapper attribute", it.place(node), owner.id, None, name, values))
    if name in MODEL_FACTS and rename_attribute(name) in thing.attrs:
        return thing.attrs[rename_attribute(name)]
    if name in thing.attrs:
        return thing.attrs[name]
    of_class = thing.attrs.get("__class__")
    if isinstance(of_class, Class):
        for info in it.mro(of_class.key):
            if name in info.names:
                value = info.names[name]
                if not isinstance(value, Func):
                    is_instance = it.kind(value) == "instance"
                    made = is_instance and classes.call_method(it, value, "__get__", node, UNKNOWN, UNKNOWN)
                    return made or value
                if _has_decorator(it, value, "staticmethod"):
                    return value
                bound = Func(value.key, value.frame, owner)
                return _property(it, owner, name, bound, node) if _is_property(it, value) else bound
    if name == "__dict__" and thing.kind in ("instance", "namespace"):
        return map_fields(thing)
    made = thing.kind == "instance" and classes.call_method(it, owner, "__getattr__", node, Const(name))
    return made or it.library.attribute(it, owner, name)


def _is_property(it: Interpreter, func: Func) -> bool:
    info = it.functions.get(func.key)
    return info is not None and bool(info.decorators) and not _PROPERTIES.isdisjoint(info.decorators)


def _property(it: Interpreter, owner: Ref, name: str, method: Func, node: ast.AST) -> Value:
    value = calls.call_function(it, method, unwrap_value(it, node, ()))
    info = it.functions[method.key]
    if ExternalName("functools.cached_property") in info.decorators and not isinstance(value, Unknown):
        it.change(owner.id, **{rename_attribute(name) if it.kind(owner) == "model" else name: value})
    return value


def subscript_class(it: Interpreter, owner: Class, key: Value, node: ast.AST) -> Value:
    """Color["RED"] of an Enum; brackets behind another class make a type."""
    name = as_text(key)
    return (
        _class_attribute(it, owner, name, node) if name is not None and classes.is_enum(it, owner) else owner
    )


_ATTRIBUTES: dict[type[Any], Callable[[Interpreter, Any, str, ast.AST], Value]] = {
    ExternalName: _external_attribute,
    Ref: _thing_attribute,
    OneOf: lambda it, owner, name, node: map_alternatives(
        owner, lambda item: get_attribute(it, item, name, node)
    ),
    Module: _module_attribute,
    Class: _class_attribute,
    Func: _function_attribute,
    Element: lambda it, owner, name, _node: it.library.attribute(it, owner, name),
    Method: _method_attribute,
    **dict.fromkeys((Map, Seq, Const, Dtype, Device), _plain_method),
    Unknown: lambda _it, owner, name, _node: (
        owner if owner.on and name in _STAY else OF_RANK if owner.by_rank else UNKNOWN
    ),
    RankValue: lambda _it, owner, *_: OF_RANK if is_by_rank(owner) else UNKNOWN,
}
"""By the kind of owner: one that is not known has attributes that are not known."""
