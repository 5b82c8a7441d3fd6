"""Models while they are read: their dtype, what of them is trained, and what is done to them.

Attributes of a thing of kind "model":
  dtype      Dtype of its weights; "checkpoint" when its config.json decides; Unknown
  adapters   Dtype of PEFT adapters, None without
  half_extra True when parts beside the adapters are trained in the base dtype (modules_to_save, bias)
  trainable  "all", "none", "some"
  upcast     True when some of it was cast to float32 by hand
  quantized, device_map, optimized (an optimizer holds it), recast (place of a cast since), touched, role
"""

import ast
from collections.abc import Callable
from typing import TypeAlias

from preflight.facts.script import CodeLocation
from preflight.script.interpreter.calls import call_function, call_value
from preflight.script.interpreter.contexts import NO_SYNC
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter, unwrap_value
from preflight.script.interpreter.written_files import note_weights
from preflight.script.libraries.casts import EACH, OWN_DTYPE, cast, get_modules, list_parts, set_trained_dtype
from preflight.script.libraries.collectives import note_forward, note_state_dict
from preflight.script.libraries.optimizer_steps import note_limit
from preflight.script.libraries.weight_shards import note_use
from preflight.script.library_names import TORCH_DTYPES
from preflight.script.values import Const, Device, Dtype, Element, Func, Map, RankValue, Ref, Unknown, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, get_id, join, list_values

TENSOR_DTYPE = "__tensor_dtype__"  # key of the Map that represents a tensor of known dtype

_PARTS = (
    *("get_classifier", "get_input_embeddings", "get_output_embeddings", "get_submodule", "get_encoder"),
    *("get_decoder", "get_base_model"),
)
OWN = "own parameter"  # layer.weight or layer.bias, one of several
_PARAMETERS = frozenset({"parameter", "parameters", "weight", OWN})
_ELEMENTS = {
    **dict.fromkeys(("parameters", "trainable_parameters", "get_parameters"), "parameters"),
    **dict.fromkeys(("state_dict", "get_adapter_state_dict"), "state"),
    **dict.fromkeys(_PARTS, "module"),
    "named_parameters": "named",
}
"""Methods that give something of the model."""

_CASTS = {"half": "float16", "float": "float32", "bfloat16": "bfloat16", "double": "float64"}


def make_model(place: CodeLocation, dtype: Value, **more: Value) -> HeapObject:
    """Return a model as it is after loading."""
    base = HeapObject("model", place).with_changes(
        dtype=dtype,
        adapters=NONE,
        half_extra=FALSE,
        trainable=Const("all"),
        upcast=FALSE,
        quantized=FALSE,
        device_map=NONE,
        optimized=FALSE,
        recast=FALSE,
        touched=FALSE,
        role=NONE,
    )
    return base.with_changes(**more)


def parse_dtype(value: Value | None, place: CodeLocation) -> Value:
    """Return the dtype that an argument names (a torch dtype, or its name as a string), placed at `place`."""
    if value is None:
        return NONE
    return join(_one_dtype(item, place) for item in list_values(value))


def _one_dtype(value: Value, place: CodeLocation) -> Value:
    if isinstance(value, Dtype):
        return Dtype(value.name, place)
    text = as_text(value)
    if text == "auto":
        return Dtype("checkpoint", place)
    if text is not None:
        name = TORCH_DTYPES.get(text.removeprefix("torch."))
        return Dtype(name, place) if name else UNKNOWN
    return value if value == NONE else UNKNOWN


def find_trained_dtype(thing: HeapObject) -> Value:
    """Return the dtype of what is trained; NONE when nothing is, Unknown when it cannot be determined."""
    trainable = [as_text(item) for item in list_values(thing.get("trainable"))]
    if trainable == ["none"]:
        return NONE
    if thing.get("adapters") != NONE:
        return thing.get("adapters")
    if thing.get("upcast") != FALSE:
        return UNKNOWN
    if thing.get("partly") != NONE:
        return join((thing.get("dtype"), thing.get("partly"))) if trainable == ["all"] else UNKNOWN
    if len(trainable) == 1:
        return thing.get("dtype")
    some = all(trainable) and thing.get("mixed", NONE) == NONE  # which part is not known, its dtype is
    return join((NONE, thing.get("dtype"))) if some else UNKNOWN


def find_moved_model(node: ast.expr) -> ast.expr:
    """Return what `model.to(device).train()` is of: methods that give the model itself."""
    while isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("to", "cuda", "train", "eval"):
        node = getattr(node.func, "value", node.func)
    return node


def model_method(it: Interpreter, owner: Ref | Element, name: str, call: Call) -> Value:
    """Carry out a method of a model, or of a submodule or parameters of one."""
    if isinstance(owner, Element) and owner.what in ("data", "grad", *_PARAMETERS):
        return _parameter_method(it, owner, name, call)
    if name == NO_SYNC:
        return it.allocate(HeapObject(f"{NO_SYNC} {get_id(owner)}", call.place))
    if name in _CASTS and not call.args:
        cast(it, owner, Dtype(_CASTS[name], call.place))
        return owner
    if name in ("to", "type", "cuda", "cpu"):
        return _move(it, owner, name, call)
    model = get_id(owner)
    if name in ("state_dict", "get_adapter_state_dict"):
        note_state_dict(it, model, call)
    if name in _ELEMENTS:
        return Element(model, _ELEMENTS[name])
    if name in ("modules", "children", "named_modules", "named_children"):
        named = "named " if name.startswith("named") else ""
        whole = isinstance(owner, Ref) or owner.what == EACH
        return Element(model, f"{named}modules" if whole else f"{named}inner modules")
    if isinstance(owner, Ref) and name in ("eval", "train"):
        it.change(model, only_used=Const(name == "eval" and (call.get("mode", 0) or TRUE) == TRUE))
        it.note((name, model), call.place)
    if isinstance(owner, Ref) and name in ("update_parameters", "update") and call.args:
        note_average(it, owner, call.args[0], call)
        return NONE
    if name == "load_state_dict" and it.state.wrapped:
        it.emit(call.event("weights read", model))
    if name == "save_pretrained" and (isinstance(owner, Ref) or "state_dict" in call.kwargs):
        note_weights(it, call)
        return UNKNOWN
    if name in _EFFECTS:
        effect, result = _EFFECTS[name]
        effect(it, owner, model, call)
        return owner if result is None else result
    return owner if name in ("eval", "train", "merge_and_unload", "compile", "unload") else UNKNOWN


def _checkpoint_activations(it: Interpreter, _owner: Ref | Element, model: int, call: Call) -> None:
    it.emit(call.event("checkpointing", model))
    given = call.get("gradient_checkpointing_kwargs", 0) or (UNKNOWN if call.open else NONE)
    it.change(model, checkpointing=given, checkpointing_at=Dtype("at", call.place))


def _spread(it: Interpreter, _owner: Ref | Element, model: int, call: Call) -> None:
    it.emit(call.event("spread", model, map=call.get("device_map", 0) or NONE))


def _apply(it: Interpreter, owner: Ref | Element, _model: int, call: Call) -> None:
    """model.apply(function): a call for each module."""
    module = Element(owner.id, EACH) if isinstance(owner, Ref) else owner
    outer, dead = it.tests, it.state.dead
    it.tests = []
    for function in list_values(call.args[0]) if call.args else ():
        if isinstance(function, Func):
            call_function(it, function, call.with_arguments(module))
    it.tests, it.state.dead = outer, dead


def _require_grad(it: Interpreter, owner: Ref | Element, _model: int, call: Call) -> None:
    wanted = call.get("requires_grad", 0) or TRUE
    if isinstance(owner, Element):
        it.change(owner.of, trainable=Const("some"))
        return
    words = [Const("all") if item == TRUE else Const("none") for item in list_values(wanted)]
    it.emit(call.event("requires grad", owner.id, value=wanted))
    for model in list_parts(it, owner.id):
        it.change(model, __frozen__=Const(wanted == FALSE), trainable=join(words))


def _move(it: Interpreter, owner: Ref | Element, name: str, call: Call) -> Value:
    """`.to(...)`: any of a dtype, a device, a tensor to be like."""
    if it.attr(owner, "empty") == TRUE:
        return owner
    targets = [*call.args, *(call.kwargs[key] for key in ("device", "dtype") if key in call.kwargs)]
    if name == "cpu" or "cpu" in map(as_text, targets):
        it.emit(call.event("off gpu", get_id(owner)))
    if name == "cuda":
        index = call.get("device", 0) or NONE
        device = Device("cuda") if index == NONE else index
        device = as_device(device) if isinstance(device, (Const, RankValue)) else device
        values = {"device": device, "literal": Const(not isinstance(index, Device)), "alone": TRUE}
        it.emit(call.event("cuda", get_id(owner), "model", **values))
        return owner
    for target in targets:
        for item in list_values(target):
            if isinstance(item, Dtype):
                spot = call.get_place("dtype")
                cast(it, owner, Dtype(item.name, spot), sure=item is target)
            elif isinstance(item, Map) and item.get(TENSOR_DTYPE) is not None:
                cast(it, owner, UNKNOWN)
            else:
                device = as_device(item)
                if isinstance(device, Device) and device.kind == "cuda":
                    it.emit(call.event("cuda", get_id(owner), "model", **describe_use(device, item, target)))
    return owner


def describe_use(device: Device, item: Value, target: Value) -> dict[str, Value]:
    """Return what rules are sent of a GPU that a target names: `item` of its alternatives says this `device`.

    "literal" is false where another alternative is the rank's own; "doubt" is true where one is not known.
    """
    others = [other for other in list_values(target) if other is not item]
    by_rank = any(
        isinstance(other, RankValue) or (isinstance(other, Device) and other.of_rank) for other in others
    )
    return {
        "device": device,
        "literal": Const(not isinstance(item, Device) and not by_rank),
        "alone": Const(item is target),
        "doubt": Const(any(isinstance(other, Unknown) for other in others)),
    }


def as_device(value: Value) -> Value:
    """Return the device that a value names: "cuda:1", 1, torch.device(...)."""
    if isinstance(value, Device):
        return value
    if isinstance(value, RankValue):
        return Device("cuda", of_rank=True)
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return Device("cuda", value.value, place=value.place)
    text = as_text(value)
    if text is None or not isinstance(value, Const):
        return UNKNOWN
    kind, _, index = text.partition(":")
    if kind not in ("cuda", "cpu", "mps", "xpu", "npu", "meta", "gpu"):
        return UNKNOWN
    return Device(kind, int(index) if index.isdigit() else None, place=value.place)


def attach_adapters(it: Interpreter, model: int, config: Value, call: Call, *, autocast: Value) -> None:
    """Put PEFT adapters on a model: they are float32 unless PEFT has the argument not to convert them."""
    thing = it.thing(model)
    if thing is None:
        return
    base = thing.get("dtype")
    old = it.target.is_at_least("peft", 0, 12) is False
    dtype = base if autocast == FALSE or old else Dtype("float32", call.place)
    if autocast not in (TRUE, FALSE):
        dtype = join((Dtype("float32", call.place), base))
    if isinstance(dtype, Dtype) and autocast == FALSE:
        dtype = Dtype(dtype.name, call.get_place("autocast_adapter_dtype"))
    lora = it.thing(config) if isinstance(config, Ref) else None
    extra = lora is not None and (
        lora.get("modules_to_save") not in (NONE, UNKNOWN)
        or as_text(lora.get("bias")) in ("all", "lora_only")
    )
    it.change(
        model,
        adapters=dtype,
        half_extra=Const(extra),
        half_extra_at=lora.get("extra_at") if lora else NONE,
        trainable=Const("all"),
        peft=TRUE,
    )
    if isinstance(thing.get("checkpointing_at"), Dtype) and thing.get("quantized") == FALSE:
        # PEFT then has the inputs require gradients
        it.change(model, inputs_require_grad=TRUE)
    it.emit(call.event("adapters", model, config=config, base=base))


def _add_adapter(it: Interpreter, _owner: Ref | Element, model: int, call: Call) -> None:
    """The add_adapter of transformers and diffusers: float32 or the base's dtype, depending on versions."""
    config = call.get("adapter_config", 0) or call.get("config", 0) or UNKNOWN
    attach_adapters(it, model, config, call, autocast=call.get("autocast_adapter_dtype") or UNKNOWN)


def _call(it: Interpreter, owner: Ref | Element, _model: int, call: Call) -> None:
    """Call a model; a Sequential calls its modules."""
    note_forward(it, owner, call)
    note_use(it, owner, call, "forward")
    if it.loop_depth and getattr(it.function and it.function.node, "name", "") != "forward":  # of no layer
        it.emit(call.event("forward", get_id(owner)))
    for part in get_modules(it.thing(owner)):
        call_value(it, part, unwrap_value(it, call.node, (UNKNOWN,)))


_Effect: TypeAlias = Callable[[Interpreter, Ref | Element, int, Call], None]
_EFFECTS: dict[str, tuple[_Effect, Value | None]] = {
    "requires_grad_": (_require_grad, None),
    "apply": (_apply, None),
    "__call__": (_call, UNKNOWN),
    "add_adapter": (_add_adapter, NONE),
    "gradient_checkpointing_enable": (_checkpoint_activations, NONE),
    "enable_gradient_checkpointing": (_checkpoint_activations, NONE),
    "gradient_checkpointing_disable": (lambda it, _, at, __: it.change(at, checkpointing_at=NONE), NONE),
    "parallelize": (_spread, NONE),
    "resize_token_embeddings": (lambda it, _, model, call: it.emit(call.event("resized", model)), UNKNOWN),
    "generate": (lambda it, owner, _, call: note_use(it, owner, call, "generate"), UNKNOWN),
    "enable_input_require_grads": (lambda it, _, model, __: it.change(model, inputs_require_grad=TRUE), NONE),
}
"""What a method does, and returns; None: its model."""


def _parameter_method(it: Interpreter, owner: Element, name: str, call: Call) -> Value:
    if name in _CASTS:
        return Map(((TENSOR_DTYPE, Dtype(_CASTS[name], call.place)),))
    if name == "to":
        for item in (*call.args, *call.kwargs.values()):
            if isinstance(item, Dtype):
                return Map(((TENSOR_DTYPE, item),))
        return owner
    if name == "requires_grad_":
        wanted = call.get("requires_grad", 0) or TRUE
        assign_parameter(it, owner, "requires_grad", wanted, call.place)
    if owner.what == "grad":
        note_limit(it, owner, name, call)
    weighed = name.startswith("lerp") or (name == "add_" and "alpha" in call.kwargs)
    if weighed and isinstance(call.first, Element) and "grad" not in (owner.what, call.first.what):
        note_average(it, Ref(owner.of), Ref(call.first.of), call, name)
    same = name in ("detach", "clone", "contiguous", "cpu", "cuda", "lerp", "lerp_", "copy_", "mul_", "add_")
    return owner if same else UNKNOWN


def note_average(it: Interpreter, average: Value, model: Value, call: Call, by: str = "lerp") -> None:
    """Note that a moving average takes a step towards its model, `by` which method."""
    it.emit(call.event("average", None, by, average=average, model=model))


def assign_parameter(it: Interpreter, owner: Element, name: str, value: Value, place: CodeLocation) -> None:
    """Note `p.requires_grad = ...`, `p.data = ...`, `p.grad.data = ...` for the parameters of a model."""
    if name == "requires_grad":
        if owner.what == "parameter":
            it.emit(ScriptEvent("requires grad", place, owner.of, None, "", {"value": value}))
        for model in list_parts(it, owner.of) if it.thing(owner) is not None else ():
            it.change(model, trainable=Const("none" if value == FALSE and owner.what != OWN else "some"))
        return
    dtype = value.get(TENSOR_DTYPE) if isinstance(value, Map) else None
    if owner.what == "weight" and name == "data" and dtype is not None:
        cast(it, Element(owner.of, EACH), dtype)
        return
    if name in ("data", "grad", "grad_dtype") and (dtype is not None or name == "grad_dtype"):
        what = f"{owner.what}.{name}"
        it.emit(ScriptEvent("parameter data", place, owner.of, None, what, {"dtype": dtype or value}))
        before = it.attr(owner, "optimized", TRUE) != TRUE
        for_step = isinstance(dtype, Dtype) and dtype.name == "float32"
        if name == "data" and owner.what in ("parameter", OWN) and dtype is not None and (before or for_step):
            set_trained_dtype(it, owner.of, dtype)
            it.change(owner.of, recast=FALSE, rounded=NONE)


def _uniform(thing: HeapObject | None) -> str:
    """Return the dtype of every parameter of a model, "" where they may differ."""
    dtype = thing.get("dtype") if thing else UNKNOWN
    if thing is None or not isinstance(dtype, Dtype) or dtype.name in (OWN_DTYPE, "checkpoint"):
        return ""
    plain = thing.get("adapters") == NONE and thing.get("mixed", NONE) == NONE
    return dtype.name if plain and thing.get("upcast") == FALSE and thing.get("touched") != TRUE else ""


def _needs_grad(thing: HeapObject | None) -> Value:
    """`if p.requires_grad:` chooses what is trained, which is what counts."""
    words = [as_text(item) for item in list_values(thing.get("trainable"))] if thing else []
    return FALSE if words == ["none"] else (TRUE if "none" not in words and words else UNKNOWN)


def model_attribute(it: Interpreter, owner: Ref | Element, name: str) -> Value | None:
    """Return an attribute of a model or of a part of one, None when it is to be called as a method."""
    model = get_id(owner)
    thing = it.thing(owner)
    if isinstance(owner, Element) and owner.what == "grad" and name == "data":
        return owner
    if isinstance(owner, Element) and owner.what in _PARAMETERS:
        if name == "data":
            return Element(model, "data")
        if name == "grad":
            return Element(model, "grad")
        if name == "dtype":
            return Dtype(OWN_DTYPE, actual=_uniform(thing))
        if name == "requires_grad":
            return _needs_grad(thing)
        return UNKNOWN if name in ("device", "shape", "is_cuda") else None
    if name == "dtype":
        dtype = thing.get("dtype") if thing is not None else UNKNOWN
        return Dtype(OWN_DTYPE) if thing is not None and dtype == UNKNOWN else dtype
    if name in ("config", "hf_device_map", "peft_config", "device", "training", "generation_config"):
        return UNKNOWN
    return None
