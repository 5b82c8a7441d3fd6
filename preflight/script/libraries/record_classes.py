"""Objects that hold named values (dataclasses, named tuples, classes of pydantic and attrs), and lists."""

import ast
from dataclasses import replace

from preflight.script.interpreter.assignments import set_attribute
from preflight.script.interpreter.attributes import get_attribute, map_fields
from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.classes import instantiate
from preflight.script.interpreter.decorators import open_config_store, store_config
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, ConstructorModel, Interpreter, MethodModel
from preflight.script.values import Class, Const, Element, ExternalName, Map, Module, Ref, Seq, Value
from preflight.script.values.constants import NONE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, get_id, join, list_values, merge_maps


def _getattr(it: Interpreter, call: Call) -> Value:
    if not all(isinstance(item, ast.Constant) for item in call.node.args[1:2]):
        it.dispatchers.update(it.stack[-1:])
    names = [as_text(item) for item in list_values(call.args[1])] if len(call.args) > 1 else []
    if not any(names):
        # Some class of the library, whichever: what is loaded through it is a model if anything is trained.
        of_transformers = bool(call.args) and call.args[0] == ExternalName("transformers")
        return ExternalName("transformers.PreTrainedModel") if of_transformers else UNKNOWN
    found = join(get_attribute(it, call.args[0], name, call.node) if name else UNKNOWN for name in names)
    fallback = call.args[2] if len(call.args) > 2 else None
    if fallback is not None and (found == UNKNOWN or isinstance(found, ExternalName)):
        return join((fallback, UNKNOWN))
    return found


def _setattr(it: Interpreter, call: Call) -> Value:
    name = as_text(call.args[1]) if len(call.args) > 2 else None
    if name is not None:
        set_attribute(it, call.args[0], name, call.args[2], call.node)
    return NONE


def _vars(it: Interpreter, call: Call) -> Value:
    if isinstance(call.first, Module):
        return call.first  # its names, as those of globals()
    if isinstance(call.first, Class) and call.first.key in it.classes:
        return Map(tuple(it.classes[call.first.key].names.items()), open=True)
    return map_fields(it.thing(call.args[0])) if call.args else UNKNOWN


def _field(it: Interpreter, call: Call) -> Value:
    default = call.get("default", 0)
    if default is not None:
        return default
    factory = call.get("default_factory") or call.get("factory")
    if factory is None:
        return UNKNOWN
    it.factories[id(call.node)] = factory
    early, dead = it.state.early_cuda, it.state.dead
    made = call_value(it, factory, call.with_arguments())
    it.state.early_cuda, it.state.dead = early, dead  # it runs where an object is made
    return made


def _set_fields(it: Interpreter, call: Call) -> Value:
    """dataclasses.replace(config, ...), config.model_copy(update={...}): a copy with fields changed."""
    thing = it.thing(call.args[0]) if call.args else None
    return it.allocate(thing.with_changes(**call.kwargs)) if thing and not call.open else UNKNOWN


def _as_map(it: Interpreter, value: Value, depth: int) -> Value:
    thing = it.thing(value) if isinstance(value, Ref) else None
    if thing is None or thing.kind not in ("instance", "namespace") or not depth:
        return value
    attrs = [(name, _as_map(it, item, depth - 1)) for name, item in thing.attrs.items() if name[:2] != "__"]
    return Map(tuple(attrs))


def _fields(it: Interpreter, call: Call) -> Value:
    """dataclasses.fields(config or Config): what has the name of each and its default; nothing runs."""
    cls = call.first if isinstance(call.first, Class) else it.attr(call.first, "__class__")
    key = cls.key if isinstance(cls, Class) else -1
    parts = ((info, node) for info in reversed(list(it.mro(key))) for node in info.node.body)
    named = [(info, node.target) for info, node in parts if isinstance(node, ast.AnnAssign)]
    values = {name.id: info.names.get(name.id, UNKNOWN) for info, name in named if isinstance(name, ast.Name)}
    made = ({"name": Const(name), "default": value} for name, value in values.items())
    more = not values or it.library_base(key) != ""
    return Seq(tuple(it.allocate(HeapObject("namespace", call.place, each)) for each in made), more)


def _class_of_fields(it: Interpreter, call: Call) -> Value:
    """namedtuple("Point", "x y"), NamedTuple("Point", [("x", int)]): what it makes is a tuple with names."""
    fields = call.get("field_names", 1) or UNKNOWN
    if isinstance(fields, Seq):
        firsts = (item.items[0] if isinstance(item, Seq) and item.items else item for item in fields.items)
        fields = Seq(tuple(firsts), fields.open)
    text = as_text(fields)
    names = text.replace(",", " ").split() if text is not None else _texts(fields)
    if names is None:
        return UNKNOWN
    return it.allocate(HeapObject("tuple class", call.place, {"fields": Seq(tuple(map(Const, names)))}))


def _texts(value: Value) -> list[str] | None:
    texts = [as_text(item) for item in value.items] if isinstance(value, Seq) and not value.open else [None]
    return [text for text in texts if text is not None] if None not in texts else None


def _make_tuple(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    fields = it.attr(owner, "fields")
    names = _texts(fields) or []
    values = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    if call.open or len(values) < len(names):
        values = {name: values.get(name, UNKNOWN) for name in names}
    return it.allocate(HeapObject("instance", call.place, {**values, "__fields__": fields}))


def _structured(it: Interpreter, call: Call) -> Value:
    """OmegaConf.structured(Config), create({...}), to_object(config): what it is given, with its values."""
    given = call.first
    return instantiate(it, given, replace(call, args=(), kwargs={})) if isinstance(given, Class) else given


def _overlaid(it: Interpreter, call: Call) -> Value:
    """OmegaConf.merge(defaults, file, arguments): later ones win; what is not known adds nothing."""
    result: Value = UNKNOWN
    for item in call.args:
        over = map_fields(it.thing(item)) if isinstance(item, Ref) else item
        thing = it.thing(result) if isinstance(result, Ref) else None
        if isinstance(result, Map) and isinstance(over, Map):
            result = merge_maps(result, over)
        elif thing is not None and isinstance(over, Map):
            result = it.allocate(thing.with_changes(**{str(name): value for name, value in over.items}))
        elif isinstance(item, (Ref, Map)):
            result = item
    return result


_ITEMS = "__items__"


def list_items(it: Interpreter, owner: Ref | Element) -> Seq:
    """Return what a list holds, as far as is known."""
    held = it.attr(owner, _ITEMS)
    return held if isinstance(held, Seq) else Seq((), open=True)


def _put(it: Interpreter, owner: Ref | Element, held: Seq) -> Value:
    it.change(get_id(owner), **{_ITEMS: it.limit_value(held, it.source.tree)})
    return NONE


def _append(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    held = list_items(it, owner)
    return _put(it, owner, Seq((*held.items, call.args[-1] if call.args else NONE), held.open))


def _extend(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    held = list_items(it, owner)
    more = _listed(it, call.first)
    return _put(it, owner, Seq((*held.items, *more.items), held.open or more.open))


def _construct(it: Interpreter, ref: Ref, _name: str, call: Call) -> None:
    _put(it, ref, _listed(it, call.args[0] if call.args else Seq(())))


def _listed(it: Interpreter, given: Value) -> Seq:
    return given if isinstance(given, Seq) else Seq((it.library.element(it, given),), open=True)


CALLS: dict[str, CallModel] = {
    "builtins.getattr": _getattr,
    "builtins.setattr": _setattr,
    "builtins.vars": _vars,
    **dict.fromkeys(("collections.namedtuple", "typing.NamedTuple"), _class_of_fields),
    **{
        f"omegaconf.OmegaConf.{name}": _structured
        for name in ("structured", "create", "to_object", "to_container")
    },
    **dict.fromkeys(("omegaconf.OmegaConf.merge", "omegaconf.OmegaConf.unsafe_merge"), _overlaid),
    "hydra.core.config_store.ConfigStore.instance": open_config_store,
    "dataclasses.field": _field,
    "dataclasses.replace": _set_fields,
    "dataclasses.asdict": lambda it, call: _as_map(it, call.first, 6),  # dataclasses in fields too
    "dataclasses.fields": _fields,
    **dict.fromkeys(("pydantic.Field", "attr.ib", "attr.field", "attrs.field"), _field),
    **dict.fromkeys(("typer.Option", "typer.Argument"), _field),
}

CLASSES = dict.fromkeys(("builtins.list", "collections.UserList"), "list")

CONSTRUCT: dict[str, ConstructorModel] = {"list": _construct}

METHODS: dict[tuple[str, str], MethodModel] = {
    ("tuple class", "__call__"): _make_tuple,
    ("config store", "store"): lambda it, _owner, call: store_config(it, call),
    **dict.fromkeys((("list", "append"), ("list", "insert")), _append),
    ("list", "extend"): _extend,
}
