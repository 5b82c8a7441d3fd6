"""Classes that the script defines, and objects of them."""

import ast
from dataclasses import replace

from preflight.script.interpreter import calls, switches
from preflight.script.interpreter.events import Call, ClassInfo
from preflight.script.interpreter.interpreter import Interpreter, unwrap_value
from preflight.script.syntax_trees import unparse
from preflight.script.values import Class, Const, ExternalName, Func, Ref, Seq, Value
from preflight.script.values.constants import NONE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import join, list_values

_DATACLASSES = frozenset(
    {
        *("dataclasses.dataclass", "value.dataclass", "pydantic.dataclasses.dataclass"),
        *("attr.s", "attr.dataclass"),
        *("attr.define", "attr.frozen", "attrs.define", "attrs.frozen", "attrs.mutable", "chz.chz"),
        *("flax.struct.dataclass",),
    }
)
"""Decorators that write an __init__ of the annotated fields."""
_RECORDS = frozenset(
    {
        *("pydantic.BaseModel", "pydantic.BaseSettings", "pydantic_settings.BaseSettings"),
        "typing.NamedTuple",
        *("msgspec.Struct", "typing_extensions.NamedTuple"),
    }
)
"""Bases that do."""
_TUPLES = frozenset({"typing.NamedTuple", "typing_extensions.NamedTuple"})
_ENUMS = frozenset({"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"})


def define_class(it: Interpreter, node: ast.ClassDef) -> Class:
    """Return a class that the script defines, its body read in a frame of its own."""
    bases = tuple(item for base in node.bases for item in list_values(it.evaluate(base)))
    decorators = [
        it.evaluate(item.func if isinstance(item, ast.Call) else item) for item in node.decorator_list
    ]
    frame = it.make_frame(it.frame)
    it.captured.add(it.frame)
    outer, it.frame = it.frame, frame
    it.execute(node.body)
    it.frame = outer
    names = it.state.drop(frame)
    # A method's own names are looked up outside the class, as Python does.
    lifted = {
        name: Func(value.key, outer, value.bound)
        if isinstance(value, Func) and value.frame == frame
        else value
        for name, value in names.items()
    }
    it.captured.discard(frame)
    marks = {getattr(item, "name", "") for item in decorators}
    named = {base.name for base in bases if isinstance(base, ExternalName)}
    is_dataclass = not _DATACLASSES.isdisjoint(marks) or not _RECORDS.isdisjoint(named)
    if is_dataclass:
        switches.note_fields(it, lifted)
    it.classes[id(node)] = ClassInfo(node, it.source, bases, lifted, is_dataclass)
    made = Class(id(node), outer)
    given: dict[str, Value] = {
        word.arg: it.evaluate(word.value) for word in node.keywords if word.arg not in (None, "metaclass")
    }
    for info in list(it.mro(id(node)))[1:]:
        hook = info.names.get("__init_subclass__")
        if isinstance(hook, Func):  # of a registry
            seen = replace(unwrap_value(it, node, ()), kwargs=given)
            calls.call_function(it, Func(hook.key, hook.frame, made), seen)
            break
    return made


def is_enum(it: Interpreter, cls: Class) -> bool:
    """Whether a class of the script is an Enum: a call looks up a member by its value."""
    bases = (base for info in it.mro(cls.key) for base in info.bases)
    return any(isinstance(base, ExternalName) and base.name in _ENUMS for base in bases)


def find_method(it: Interpreter, owner: Value, name: str) -> Func | None:
    """Return a method of the class of an object, bound to it, None where the script defines none."""
    cls = it.attr(owner, "__class__") if type(owner) is Ref else NONE
    for info in it.mro(cls.key) if type(cls) is Class else ():
        if type(method := info.names.get(name)) is Func:
            return Func(method.key, method.frame, owner)
    return None


def call_method(it: Interpreter, owner: Value, name: str, node: ast.AST, *args: Value) -> Value | None:
    """Return what a method of the class of an object gives, None where the script defines none."""
    method = find_method(it, owner, name)
    return None if method is None else calls.call_function(it, method, unwrap_value(it, node, args))


def enter_context(it: Interpreter, manager: Value, node: ast.AST) -> Value:
    """Return what entering a context gives: of a class of the script what its method does, else itself."""
    return call_method(it, manager, "__enter__", node) or manager


def leave_context(it: Interpreter, manager: Value, node: ast.AST) -> Value:
    """Leave a context: an ExitStack calls what it was given, the last first, for the ranks that gave it."""
    call_method(it, manager, "__exit__", node, NONE, NONE, NONE)
    for item in reversed([item for item in it.exits if item[0] == manager]):
        it.exits.remove(item)
        outer, it.contexts = it.contexts, list(item[1])
        calls.call_value(it, item[2].first, replace(item[2], args=item[2].args[1:]))
        it.contexts = outer
    return NONE


def list_fields(it: Interpreter, owner: Value) -> Seq | None:
    """Return the fields of a named tuple in their order, None of anything else."""
    thing = it.thing(owner) if isinstance(owner, Ref) else None
    fields = thing.get("__fields__") if thing else NONE
    if thing is None or not isinstance(fields, Seq):
        return None
    return Seq(tuple(thing.get(str(name.value), UNKNOWN) for name in fields.items if isinstance(name, Const)))


def instantiate(it: Interpreter, cls: Class, seen: "Call") -> Value:
    """Make an object of a class of the script."""
    if is_enum(it, cls) and len(seen.args) == 1:
        return _enum_member(it, cls, seen.args[0])
    base = it.library_base(cls.key)
    kind = it.library.kind_of_call(it, base, seen) if base else ""
    if kind == "mapping":
        named = (item for info in it.mro(cls.key) for item in info.names.items())
        if all(_keeps_entries(it, name, value) for name, value in named):
            return it.library.call(it, base, seen)
        kind = ""
    ref = it.allocate(HeapObject(kind or "instance", seen.place, {"__class__": cls}))
    is_record = any(info.is_dataclass for info in it.mro(cls.key))
    init = find_method(it, ref, "__init__")
    if is_record:
        _fill_dataclass(it, ref, cls, seen)
    if init is not None:
        calls.call_function(it, init, seen)
    elif base:
        it.library.construct(it, ref, base, seen)
    elif call_method(it, ref, "__post_init__", seen.node) is None and not is_record:
        calls.taint_arguments(it, seen)
    if kind == "wrapper" and (thing := it.thing(ref)) is not None:
        return thing.get("module")  # the model that it wraps
    return ref


_OF_ENTRIES = frozenset({"__getattr__", "__setattr__", "__delattr__", "__repr__", "__str__"})
_OF_CLASS = frozenset({"classmethod", "staticmethod"})
_MADE_OF_ENTRIES = ("super(", "dict.__init__(", "self.__dict__ = self", "'")


def _keeps_entries(it: Interpreter, name: str, value: Value) -> bool:
    """Whether a member of a class made of a dict leaves it one, whose entries may be attributes too."""
    if not isinstance(value, Func) or name in _OF_ENTRIES:
        return True
    node = it.functions[value.key].node
    if any(unparse(each) in _OF_CLASS for each in getattr(node, "decorator_list", ())):
        return True
    body = getattr(node, "body", ())
    return name == "__init__" and all(unparse(each).startswith(_MADE_OF_ENTRIES) for each in body)


def _enum_member(it: Interpreter, cls: Class, value: Value) -> Value:
    """Return Color("red"): the member of that value, which is what reading takes a member for."""
    members = [item for info in it.mro(cls.key) for item in info.names.values() if isinstance(item, Const)]
    return next((item for item in members if item == value), value if value == UNKNOWN else UNKNOWN)


def _fill_dataclass(it: Interpreter, ref: Ref, cls: Class, seen: "Call") -> None:
    values, makers = dict[str, Value](), dict[str, Value | None]()
    for info in reversed(list(it.mro(cls.key))):
        for statement in info.node.body:  # in this order their values are given without names
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                name = statement.target.id
                values[name] = info.names.get(name, UNKNOWN)
                makers[name] = it.factories.get(id(statement.value))
        more = (item for item in info.names.items() if item[0] not in values)
        values |= {name: value for name, value in more if not isinstance(value, Func)}
    given = dict(zip(list(values), seen.args, strict=False)) | dict(seen.kwargs)
    for name, factory in makers.items():
        if name not in given and isinstance(factory, (Func, Class)):
            dead = it.state.dead
            values[name] = calls.call_value(it, factory, unwrap_value(it, seen.node, ()))
            it.state.dead = dead
    values |= given
    if seen.open:
        values = {
            name: value if name in seen.kwargs else join((value, UNKNOWN)) for name, value in values.items()
        }
    bases = {base.name for info in it.mro(cls.key) for base in info.bases if isinstance(base, ExternalName)}
    if not _TUPLES.isdisjoint(bases):
        values["__fields__"] = Seq(tuple(Const(name) for name in values))
    it.change(ref.id, **values)
