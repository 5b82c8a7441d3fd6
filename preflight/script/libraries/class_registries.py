"""Classes and functions that a script looks up by a name: registries of libraries, hydra's `_target_`."""

import posixpath
from dataclasses import replace

from preflight.script.interpreter.attributes import get_attribute, map_fields
from preflight.script.interpreter.calls import call_value, taint_arguments
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter, MethodModel
from preflight.script.values import Class, Const, Element, ExternalName, Func, Map, Module, Ref, Value
from preflight.script.values.constants import TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, join

_MAX_DEPTH = 4  # configurations in one another that are built
_ENTRY = "entry "


def _by_dotted_name(it: Interpreter, name: str, call: Call) -> Value:
    """Return what `package.module.Name` is: of a module of the script, or a library's."""
    module, _, last = name.rpartition(".")
    source = it.sources.find_import(module, 0, it.source) if module else None
    folder, _, inner = module.partition(".")
    if source is None and inner and folder == posixpath.basename(it.source.package):
        source = it.sources.find_import(inner, 0, it.source)  # the program starts in the folder above
    if source is not None:
        it.module_frame(source)
        return get_attribute(it, Module(source.path), last, call.node)
    own = it.sources.find_import(name.partition(".")[0], 0, it.source) is not None
    return UNKNOWN if own or not module else ExternalName(name)


def _instantiate(it: Interpreter, call: Call) -> Value:
    """hydra.utils.instantiate(config): what `_target_` names, called with the other entries."""
    return _built(it, call.first, replace(call, args=call.args[1:]), _MAX_DEPTH)


def _built(it: Interpreter, config: Value, call: Call, depth: int) -> Value:
    held = map_fields(it.thing(config)) if isinstance(config, Ref) else config
    name = as_text(held.get("_target_")) if isinstance(held, Map) and depth else None
    target = _by_dotted_name(it, name, call) if name else UNKNOWN
    if not isinstance(held, Map) or target == UNKNOWN:
        taint_arguments(it, call)
        return config if isinstance(config, Const) else UNKNOWN
    if held.get("_partial_") == TRUE:
        return target
    bare = replace(call, args=(), kwargs={}, places={}, open=False)
    words = {
        str(key): _built(it, value, bare, depth - 1) if _has_target(value) else value
        for key, value in held.items
        if not str(key).startswith("_")
    }
    places = {str(key): place for key, place in held.places.items()}
    given = {**words, **call.kwargs}
    return call_value(it, target, replace(call, kwargs=given, places={**places, **call.places}))


def _has_target(value: Value) -> bool:
    return isinstance(value, Map) and value.get("_target_") is not None


def _register(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """registry.register(name) above a class, or registry.register(module=Class)."""
    given = (*call.args, *call.kwargs.values())
    defined = next((item for item in given if isinstance(item, (Class, Func))), None)
    name = next((text for item in given if (text := as_text(item)) is not None), None)
    held: dict[str, Value] = {"registry": owner, "name": Const(name)}
    if defined is None:
        return it.allocate(HeapObject("registration", call.place, held))
    _note(it, owner, name, defined)
    return defined


def _registered(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """What registry.register(name) gives is called with the class below it."""
    registry = it.attr(owner, "registry")
    if isinstance(registry, Ref):
        _note(it, registry, as_text(it.attr(owner, "name")), call.first)
    return call.first


def _note(it: Interpreter, registry: Ref | Element, name: str | None, defined: Value) -> None:
    if isinstance(defined, Class) and defined.key in it.classes:
        name = name or it.classes[defined.key].node.name
    elif isinstance(defined, Func) and defined.key in it.functions:
        name = name or getattr(it.functions[defined.key].node, "name", "")
    if name and isinstance(registry, Ref):
        it.change(registry.id, **{f"{_ENTRY}{name}": defined})


def _entry(it: Interpreter, registry: Value, key: Value) -> Value:
    """Return what a registry has by a name; by one that is not known, any of its entries."""
    thing = it.thing(registry) if isinstance(registry, Ref) else None
    if thing is None:
        return UNKNOWN
    name = as_text(key)
    if name is not None:
        return thing.get(f"{_ENTRY}{name}", UNKNOWN)
    return join((*(value for word, value in thing.attrs.items() if word.startswith(_ENTRY)), UNKNOWN))


def _build(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """registry.build(config): the entry that `type` names, called with the other entries."""
    config = call.first
    held = map_fields(it.thing(config)) if isinstance(config, Ref) else config
    kind = held.get("type") if isinstance(held, Map) else None
    target = kind if isinstance(kind, (Class, Func)) else _entry(it, owner, kind or UNKNOWN)
    if not isinstance(held, Map) or target == UNKNOWN:
        taint_arguments(it, call)
        return UNKNOWN
    words = {str(key): value for key, value in held.items if key != "type"}
    return call_value(it, target, replace(call, args=(), kwargs=words, places={}, open=False))


def _build_from_config(it: Interpreter, call: Call) -> Value:
    """build_from_cfg(config, registry): the same."""
    registry = call.get("registry", 1) or UNKNOWN
    return _build(it, registry, call) if isinstance(registry, Ref) else UNKNOWN


_REGISTRIES = (
    *("fvcore.common.registry.Registry", "detectron2.utils.registry.Registry", "mmengine.Registry"),
    *("mmcv.utils.Registry", "mmcv.Registry", "mmcv.utils.registry.Registry", "mmengine.registry.Registry"),
)
CLASSES = dict.fromkeys(_REGISTRIES, "registry")
CALLS: dict[str, CallModel] = {
    **dict.fromkeys(("hydra.utils.instantiate", "hydra.utils.call"), _instantiate),
    **{f"{name}.build_from_cfg": _build_from_config for name in ("mmcv.utils", "mmcv", "mmengine.registry")},
}
METHODS: dict[tuple[str, str], MethodModel] = {
    ("registry", "register"): _register,
    ("registry", "register_module"): _register,
    ("registry", "get"): lambda it, owner, call: _entry(it, owner, call.first),
    ("registry", "build"): _build,
    ("registration", "__call__"): _registered,
}
