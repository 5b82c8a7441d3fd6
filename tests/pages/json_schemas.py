"""A JSON Schema of each document that gpulaunch prints, read from the functions that encode it.

What an expression of an encoder gives is known by its form and by the annotations of what it reads; where
neither says it, the schema takes anything. A later version may add keys, so no schema forbids them.
"""

import ast
import dataclasses
import enum
import importlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from preflight.facts.json_codec import encode
from preflight.facts.missing import Missing

ROOT = Path(__file__).parents[2]
INTERNAL = frozenset({"expected", "launch", "reap", "restart-order"})
"""Documents between our own files; nobody else reads them."""

Schema = dict[str, Any]
_NAME = re.compile(r"gpulaunch\.([a-z-]+)/1")
_SCALARS = {
    str: "string",
    Path: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_BUILTINS = {
    "str": str,
    "int": int,
    "len": int,
    "float": float,
    "round": float,
    "bool": bool,
    "any": bool,
    "all": bool,
    "one_line": str,
}
_EMPTY: Schema = {"type": "array", "items": {}}
"""Of a list without items."""
_METHODS = {"decode": str, "join": str, "time": float, "monotonic": float}
_SAME = frozenset({"list", "tuple", "sorted", "encode", "max", "min", "sum", "replace"})
"""Functions of which the result has the form of their first argument."""


def json_schemas() -> dict[str, Schema]:
    """Return the schemas by the names of the documents: `plan` for gpulaunch.plan/1."""
    found: dict[str, list[Schema]] = {}
    for path in sorted((ROOT / "launcher").rglob("*.py")):
        if re.search(r"SCHEMA\b|gpulaunch\.[a-z-]+/1|\.finish\(", path.read_text(encoding="utf-8")):
            module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
            for name, schema in _Module(module).documents():
                if name not in INTERNAL:
                    found.setdefault(name, []).append(schema)
    return {
        name: {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"gpulaunch.{name}/1",
            **_together(found[name], f"gpulaunch.{name}/1"),
        }
        for name in sorted(found)
    }


def _together(schemas: Sequence[Schema], name: str) -> Schema:
    """Return the schema of an object that several functions make: what all have is required."""
    known = [set(each.get("required", ())) for each in schemas]
    properties: Schema = {}
    for each in schemas:
        for key, value in each.get("properties", {}).items():
            properties[key] = value if key not in properties else _any_of((properties[key], value))
    properties["schema"] = {"const": name}
    return _object(properties, set.intersection(*known))


def _any_of(schemas: Iterable[Schema]) -> Schema:
    parts = [part for each in schemas for part in each.get("anyOf", (each,))]
    listed = [part for part in parts if part.get("type") == "array" and part != _EMPTY]
    parts = [part for part in parts if part != _EMPTY] if listed else parts
    unique = [part for at, part in enumerate(parts) if part not in parts[:at]]
    return {} if {} in unique else unique[0] if len(unique) == 1 else {"anyOf": unique}


def schema_of(kind: Any) -> Schema:
    """Return the schema of what `encode` makes of a value with this annotation."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return {"type": _SCALARS[kind]}
    if origin in (typing.Union, types.UnionType):
        return _any_of(map(schema_of, args))
    if origin is typing.Literal:
        return {"enum": [encode(each) for each in args]}
    if not isinstance(origin or kind, type):
        return {}
    if issubclass(origin or kind, Mapping):
        return {"type": "object", "additionalProperties": schema_of(args[1])} if args else {"type": "object"}
    if origin is tuple and args[-1] is not ...:
        return {"type": "array", "prefixItems": [schema_of(each) for each in args]}
    if origin is not None and issubclass(origin, Iterable):
        return {"type": "array", "items": schema_of(args[0])}
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        return _object({name: schema_of(hints[name]) for name in names}, names)
    return {"enum": [each.value for each in kind]} if issubclass(kind, enum.Enum) else {}


def _object(properties: Schema, required: Iterable[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": sorted(required)}


@cache
def _hints(of: Any) -> dict[str, Any]:
    """Return the annotations of a class, a function or a click command; other values have none."""
    of = getattr(of, "callback", of)
    if not (inspect.isclass(of) or inspect.isfunction(of) or inspect.ismethod(of)):
        return {}
    try:
        return typing.get_type_hints(of)
    except NameError:  # one names what is imported for type checkers alone
        return typing.get_type_hints(of, localns=_names_for_checkers(of.__module__))


@cache
def _names_for_checkers(module: str) -> dict[str, Any]:
    """Return what a module defines where TYPE_CHECKING is true."""
    names: dict[str, Any] = {}
    for block in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING":
            exec(compile(ast.Module(block.body, []), module, "exec"), names)
    return names


class _Module:
    """A module's functions and values."""

    def __init__(self, module: types.ModuleType) -> None:
        self.values = vars(module)
        self.tree = ast.parse(inspect.getsource(module))

    def documents(self) -> Iterator[tuple[str, Schema]]:
        """Yield name and schema of each document that a function of the module makes."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        answers = {self._name(call.args[0]) for call in calls if getattr(call.func, "id", "") == "Answer"} - {
            ""
        }
        for owner, function in self._functions():
            scope = _Scope(self.values, function, owner)
            for node in ast.walk(function):
                if isinstance(node, ast.Dict):
                    pairs = zip(node.keys, node.values, strict=True)
                    named = (self._name(value) for key, value in pairs if _text(key) == "schema")
                    yield from ((name, scope.whole(node)) for name in named if name)
                elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "finish":
                    keys = {word.arg: scope.schema(word.value) for word in node.keywords if word.arg}
                    keys |= {"schema": {"type": "string"}, "exit_code": {"type": "integer"}}
                    yield from ((name, _object(keys, keys)) for name in answers or {"removal"})

    def _functions(self) -> Iterator[tuple[Mapping[str, Any], ast.FunctionDef]]:
        """Yield each function, and what holds it: the module or a class."""
        for node in self.tree.body:
            owner = vars(self.values[node.name]) if isinstance(node, ast.ClassDef) else self.values
            for each in node.body if isinstance(node, ast.ClassDef) else [node]:
                if isinstance(each, ast.FunctionDef):
                    yield owner, each

    def _name(self, value: ast.expr) -> str:
        """Return the name of a document by the text of its schema or by the constant that has it."""
        found = _NAME.fullmatch(_text(value) or str(self.values.get(getattr(value, "id", ""))))
        return found[1] if found else ""


class _Scope:
    """What the names of a function stand for: their annotations, or the expressions that they are given."""

    def __init__(
        self, values: Mapping[str, Any], function: ast.FunctionDef, owner: Mapping[str, Any] | None = None
    ) -> None:
        """`owner` is the class of a method."""
        self._values = values
        self._function = function
        self._kinds = dict(_hints((values if owner is None else owner).get(function.name)))
        self._given: dict[str, ast.expr] = {}
        self._inner: dict[str, ast.FunctionDef] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.FunctionDef) and node is not function:
                self._inner[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                self._give(node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value)
        self._enter(node for node in ast.walk(function) if isinstance(node, ast.For))

    def _give(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._given.setdefault(target.id, value)
        elif isinstance(target, ast.Tuple):
            for place, part in enumerate(target.elts):
                self._give(part, ast.Subscript(value, ast.Constant(place)))

    def returned(self) -> Schema:
        """Return the schema of what the function returns."""
        returns = (node.value for node in ast.walk(self._function) if isinstance(node, ast.Return))
        return _any_of(self.schema(value) for value in returns if value is not None)

    def whole(self, display: ast.expr) -> Schema:
        """Return the schema of a dict with the keys that later lines give it."""
        found = self.schema(display)
        names = {name for name, value in self._given.items() if value is display}
        for node in ast.walk(self._function):
            if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Subscript):
                key = _text(target.slice)
                if key and isinstance(target.value, ast.Name) and target.value.id in names:
                    found["properties"][key] = self.schema(node.value)
        return found

    def schema(self, node: ast.expr) -> Schema:
        """Return the schema of an expression."""
        match node:
            case ast.Dict():
                return self._display(node)
            case ast.Constant(value=value):
                return schema_of(type(value))
            case ast.JoinedStr():
                return {"type": "string"}
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return {"type": "boolean"}
            case ast.IfExp():
                return _any_of((self.schema(node.body), self.schema(node.orelse)))
            case ast.BoolOp():
                return _any_of(map(self.schema, node.values))
            case ast.List() | ast.Tuple():
                return (
                    {"type": "array", "items": _any_of(map(self.schema, node.elts))} if node.elts else _EMPTY
                )
            case ast.ListComp() | ast.GeneratorExp():
                self._enter(node.generators)
                return {"type": "array", "items": self.schema(node.elt)}
            case ast.DictComp():
                self._enter(node.generators)
                return {"type": "object", "additionalProperties": self.schema(node.value)}
            case ast.Call(func=ast.Name(id="partial"), args=[made, *words]):
                return self.schema(ast.Call(made, words, []))
            case ast.Call(func=ast.Name(id=name)):
                return self._call(node, name)
            case ast.Name(id=name) if name in self._given and name not in self._kinds:
                found = self.whole(self._given[name])
                return {**found, "items": self._appended(name)} if found == _EMPTY else found
        return schema_of(self.kind(node))

    def _appended(self, name: str) -> Schema:
        """Return the schema of what the function appends to an empty list."""
        calls = (node for node in ast.walk(self._function) if isinstance(node, ast.Call))
        return _any_of(
            self.schema(call.args[0]) for call in calls if ast.unparse(call.func) == f"{name}.append"
        )

    def _call(self, node: ast.Call, name: str) -> Schema:
        if name in _SAME and node.args:
            held = self.schema(node.args[0])
            is_keys = name in ("list", "tuple", "sorted") and held.get("type") == "object"
            return {"type": "array", "items": {"type": "string"}} if is_keys else held
        if name in self._inner:
            return _Scope(self._values, self._inner[name]).returned()
        if name == "dict":
            held = self.schema(node.args[0])
            return held if held.get("type") == "object" else {"type": "object"}
        made = self._values.get(name)
        if inspect.isfunction(made) and not _is_plain(_hints(made).get("return")):
            return _schema_of_function(made)
        return schema_of(self.kind(node))

    def _display(self, node: ast.Dict) -> Schema:
        properties: Schema = {}
        required: set[str] = set()
        for key, value in zip(node.keys, node.values, strict=True):
            if name := _text(key):
                properties[name] = self.schema(value)
                required.add(name)
            elif key is None:
                more = self.schema(value)
                properties |= more.get("properties", {})
                required |= set(more.get("required", ()))
        return _object(properties, required)

    def _enter(self, loops: Iterable[ast.comprehension | ast.For]) -> None:
        """Learn what the names of loops stand for."""
        for each in loops:
            self._learn(each.target, _item(self.kind(each.iter)))

    def _learn(self, target: ast.expr, kind: Any) -> None:
        if isinstance(target, ast.Name):
            self._kinds[target.id] = kind
        elif isinstance(target, ast.Tuple):
            for place, part in enumerate(target.elts):
                self._learn(part, _item(kind, place))

    def kind(self, node: ast.expr) -> Any:
        """Return the annotation of a value, None where nothing says it."""
        match node:
            case ast.Name(id=name):
                if name in self._kinds or name not in self._given:
                    plain = type(self._values.get(name))
                    return self._kinds.get(
                        name, plain if plain in _SCALARS and name in self._values else None
                    )
                return self.kind(self._given[name])
            case ast.Attribute():
                return _attribute(self.kind(node.value), node.attr)
            case ast.Subscript(value=ast.Tuple(elts=parts), slice=ast.Constant(value=int(place))):
                return self.kind(parts[place])
            case ast.Subscript(value=held, slice=ast.Constant(value=int(place))):
                return _item(self.kind(held), place)
            case ast.Call(func=ast.Attribute(value=owner, attr="items")):
                args = typing.get_args(self.kind(owner))
                return Sequence[tuple[args]] if len(args) == 2 else None  # type: ignore[valid-type]
            case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _SAME:
                return self.kind(first)
            case ast.Call(func=ast.Name(id=name)):
                return _BUILTINS.get(name) or _hints(self._values.get(name)).get("return")
            case ast.Call(func=ast.Attribute(attr=name)) if name in _METHODS:
                return _METHODS[name]
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                return _hints(_attribute(self.kind(owner), name, bound=True)).get("return")
        return None


def _item(kind: Any, place: int = 0) -> Any:
    """Return the annotation of an item, None where nothing says it; one of a mapping is a key."""
    args = typing.get_args(kind)
    one = typing.get_origin(kind) is not tuple or args[-1] is ...
    return None if not args or isinstance(kind, types.UnionType) else args[0 if one else place]


def _attribute(owner: Any, name: str, *, bound: bool = False) -> Any:
    """Return the annotation of an attribute of a class, or the function of a method."""
    parts = [each for each in typing.get_args(owner) or (owner,) if each not in (type(None), Missing)]
    if len(parts) != 1 or not isinstance(parts[0], type):
        return None
    if name == "value" and issubclass(parts[0], enum.Enum):
        return parts[0]
    held = getattr(parts[0], name, None)
    if bound:
        return held
    if isinstance(held, property):
        return _hints(held.fget).get("return")
    return _hints(parts[0]).get(name) or _hints(_attribute(owner, "__init__", bound=True)).get(name)


def _is_plain(hint: Any) -> bool:
    """Whether an annotation says more of a result than that it is a dict."""
    return hint is not None and "Any" not in str(hint) and "object" not in str(hint)


@cache
def _schema_of_function(made: Callable[..., Any]) -> Schema:
    tree = ast.parse(inspect.getsource(made)).body[0]
    return _Scope(made.__globals__, tree).returned() if isinstance(tree, ast.FunctionDef) else {}


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
