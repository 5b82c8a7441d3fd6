"""torch: optimizers, scalers, autocast, and layers."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.contexts import note_autocast
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import CallModel, ConstructorModel, Interpreter, MethodModel
from preflight.script.interpreter.switches import note_off
from preflight.script.libraries.casts import list_trained_with, set_trained_dtype
from preflight.script.libraries.distributed import ddp
from preflight.script.libraries.models import (
    as_device,
    describe_use,
    find_trained_dtype,
    make_model,
    note_average,
    parse_dtype,
)
from preflight.script.libraries.optimizer_steps import schedule_of
from preflight.script.library_names import root_and_last
from preflight.script.values import Const, Device, Dtype, Element, ExternalName, Func, Map, Ref, Seq, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject, rename_attribute
from preflight.script.values.operations import as_text, get_id, join, list_values

MODULES = frozenset({"torch.nn.Module"})
_EMPTY = re.compile(
    r"torch\.nn\.(?!AdaptiveLog)(\w+Loss|(Log)?Softmax|Sigmoid|Tanh|(Leaky)?ReLU6?|GELU|SiLU|Dropout\w*|Identity"
    r"|Upsample|Flatten|(Adaptive)?(Max|Avg)Pool\dd|CosineSimilarity|PairwiseDistance)"
)
"""Layers without parameters and buffers: `.cuda()` of one moves nothing, and does not open CUDA."""


# --- optimizer, scaler, autocast --------------------------------------------------------


def find_models(value: Value) -> Iterator[int]:
    """Yield the models whose parameters a value holds, however they are grouped."""
    for item in list_values(value):
        if isinstance(item, Element):
            yield item.of
        elif isinstance(item, Seq):
            for inner in item.items:
                yield from find_models(inner)
        elif isinstance(item, Map):
            for _, inner in item.items:
                yield from find_models(inner)


def _either(value: Value) -> Iterator[int]:
    """Yield the models of which a value holds one or another, as after an `if` that makes one of two."""
    items = list_values(value)
    choices = {item.of for item in items if isinstance(item, Element)}
    if len(choices) > 1:
        yield from choices
    for item in items:
        inner = item.items if isinstance(item, Seq) else ()
        held = (part for _, part in item.items) if isinstance(item, Map) else inner
        for part in held:
            yield from _either(part)


def _optimizer(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    params = call.get("params", 0) or UNKNOWN
    held = dict.fromkeys(inner for model in find_models(params) for inner in list_trained_with(it, model))
    for model in held:
        thing = it.thing(model)
        if thing is not None:
            it.change(model, stepped=FALSE, recast=FALSE, rounded=NONE)
            it.change(model, optimized=TRUE, optimized_dtype=find_trained_dtype(thing))
    it.change(
        ref.id,
        cls=Const(root_and_last(name)[1]),
        library=Const(root_and_last(name)[0]),
        models=Seq(tuple(Ref(model) for model in held)),
        either=Seq(tuple(Ref(inner) for model in _either(params) for inner in list_trained_with(it, model))),
        masters=Const({any(True for _ in find_models(one)) for one in list_values(params)} == {True, False}),
        eps=call.get("eps") or (UNKNOWN if call.open else NONE),
        fused=call.get("fused") or FALSE,
        master_weights=call.get("master_weights") or FALSE,
        accelerator=NONE,
        **dict.fromkeys(("scaled", "unscaled"), FALSE),
    )


def list_trained_models(it: Interpreter, optimizer: Value, name: str = "models") -> list[Ref]:
    """Return the models that an optimizer steps, or only those of which it steps "either" one."""
    held = it.attr(optimizer, name) if isinstance(optimizer, Ref) else NONE
    return [item for item in held.items if isinstance(item, Ref)] if isinstance(held, Seq) else []


def list_parameter_groups(it: Interpreter, optimizer: Ref) -> Value:
    """Return optimizer.param_groups: dicts of the parameters of the models that it steps, and of numbers."""
    parts = tuple(Element(model.id, "parameters") for model in list_trained_models(it, optimizer))
    return Seq((Map((("params", join(parts)),), open=True),), open=True)


def _optimizer_step(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    if isinstance(scaler := call.get("grad_scaler"), Ref):  # apex's optimizers take the scale out themselves
        return _scaler_step(it, scaler, replace(call, args=(owner,)))
    if isinstance(owner, Ref):
        for closure in list_values(call.get("closure", 0) or NONE):
            if isinstance(closure, Func):  # of LBFGS: it computes the loss
                call_value(it, closure, replace(call, args=(), kwargs={}))
        it.emit(call.event("step", owner.id))
        _note_step(it, owner)
    return NONE


def _note_step(it: Interpreter, optimizer: Ref) -> None:
    """From the first step on the optimizer holds state in the parameters' dtype."""
    for model in list_trained_models(it, optimizer):
        it.change(model.id, stepped=TRUE)


def _scaler(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    enabled = call.get("enabled") or (UNKNOWN if call.open else TRUE)
    if it.target.capability is None and "cpu" not in [as_text(item) for item in call.args]:
        enabled = FALSE
    note_off(it, enabled)
    first = call.get("init_scale", int(".cuda." not in name)) or NONE
    it.change(ref.id, enabled=enabled, init_scale=first, of_all=Const(name == _SHARDED_SCALER))
    it.emit(call.event("scaler", ref.id, name, enabled=enabled))


def _scaler_scale(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.emit(call.event("scaled", get_id(owner)))
    return Map((("__scaled__", call.first), ("__scaler__", owner)))


def _scaler_unscale(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    for optimizer in list_values(call.args[0]) if call.args else ():
        if isinstance(owner, Ref) and isinstance(optimizer, Ref):
            it.change(optimizer.id, unscaled=TRUE)
            it.emit(call.event("unscale", owner.id, optimizer=optimizer))
        else:
            it.state.scaled = False  # of which optimizer is not known
    return NONE


def _scaler_step(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    for optimizer in list_values(call.args[0]) if call.args and isinstance(owner, Ref) else ():
        it.emit(call.event("scaler step", get_id(owner), optimizer=optimizer))
        if isinstance(optimizer, Ref):
            it.change(optimizer.id, unscaled=FALSE)
            _note_step(it, optimizer)
    return NONE


def _scaler_update(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    it.emit(call.event("scaler update", get_id(owner)))
    return NONE


def _autocast(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    first = as_text(call.args[0]) if call.args else None
    kind = as_text(call.get("device_type")) or first or ("cpu" if ".cpu." in name else "cuda")
    given = call.get("dtype", 1 if first in ("cuda", "cpu") else 5)
    default = Dtype("bfloat16" if kind == "cpu" else "float16", call.place)
    dtype = default if given is None or given == NONE else parse_dtype(given, call.get_place("dtype"))
    enabled = call.get("enabled") or (UNKNOWN if call.open else TRUE)
    it.change(ref.id, dtype=dtype, enabled=enabled, device=Const(kind))
    it.emit(call.event("autocast made", ref.id, name))


def _autocast_entered(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    note_autocast(it, owner)
    return call.first if call.args else owner  # autocast(...)(function)


def _backward(it: Interpreter, call: Call) -> Value:
    """torch.autograd.backward(loss)."""
    if not call.args:
        return NONE
    scaled = [isinstance(item, Map) and item.get("__scaled__") for item in list_values(call.args[0])]
    if not any(scaled):
        it.library.note_raw_backward(it, call)
    return NONE


def _clip(it: Interpreter, call: Call) -> Value:
    models = Seq(tuple(Ref(model) for model in find_models(call.get("parameters", 0) or UNKNOWN)))
    it.emit(call.event("clip", models=models))
    return UNKNOWN


def construct_module(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    """A layer, or the base of a model of the script's own: float32 by default."""
    old = it.thing(ref)
    if old is None:
        return
    dtype = parse_dtype(call.get("dtype"), call.get_place("dtype"))
    attrs = dict(old.attrs)
    thing = make_model(old.place, dtype if dtype != NONE else _default_dtype(it, old.place))
    attrs |= _listed(name, call)
    attrs["empty"] = Const("__class__" not in attrs and _empty(name, call))
    it.put(ref.id, HeapObject("model", old.place, {**thing.attrs, **attrs}))
    _note_half_part(it, dtype)
    given = call.get("device") or NONE
    for item in list_values(given):
        device = as_device(item)
        if isinstance(device, Device) and device.kind == "cuda":
            use = describe_use(device, item, given)
            it.emit(ScriptEvent("cuda", call.get_place("device"), ref.id, call, "model", use))


def _default_dtype(it: Interpreter, place: CodeLocation) -> Value:
    """Return the dtype of new weights: float32 where nothing set another."""
    return Dtype("float32", place) if it.default_dtype == Dtype("float32") else it.default_dtype


def _note_half_part(it: Interpreter, dtype: Value) -> None:
    """Note that the module whose constructor is being read has a part of half precision."""
    owner = it.lookup("self")
    if isinstance(dtype, Dtype) and dtype.name in ("float16", "bfloat16") and it.kind(owner) == "model":
        it.change(owner.id if isinstance(owner, Ref) else 0, mixed=dtype)


PLAIN_PARAMETER = "a parameter of torch's own dtype"


def _parameter(it: Interpreter, call: Call) -> Value:
    """nn.Parameter(torch.empty(4, 4, dtype=torch.bfloat16)): a part of that dtype, as a layer is."""
    made = call.node.args[0] if call.node.args else None
    words = [word for word in made.keywords if word.arg == "dtype"] if isinstance(made, ast.Call) else []
    for word in words:
        _note_half_part(it, parse_dtype(it.evaluate(word.value), it.place(word)))
    if not words:
        it.note(PLAIN_PARAMETER, call.place)
    return UNKNOWN


def _listed(name: str, call: Call) -> dict[str, Value]:
    """Return the modules of a Sequential, ModuleList or ModuleDict that it is given, by their names in it."""
    first = call.args[0] if call.args else NONE
    given: dict[str, Value] = {}
    if name == "torch.nn.Sequential":
        given = {str(number): item for number, item in enumerate((*call.args, *call.among))}
    elif name == "torch.nn.ModuleList" and isinstance(first, Seq):
        given = {str(number): item for number, item in enumerate(first.items)}
    elif name == "torch.nn.ModuleDict" and isinstance(first, Map):
        given = {str(key): item for key, item in first.items}
    return {rename_attribute(key): item for key, item in given.items() if isinstance(item, Ref)}


def _empty(name: str, call: Call) -> bool:
    """Whether this makes a layer with nothing to move."""
    weights = call.args or call.open or "weight" in call.kwargs or "pos_weight" in call.kwargs
    return _EMPTY.fullmatch(name) is not None and not (weights and name.endswith("Loss"))


def _set_default_dtype(it: Interpreter, call: Call) -> Value:
    it.default_dtype = parse_dtype(call.get("d", 0) or call.get("t"), call.place)
    return NONE


def _cast_training_params(it: Interpreter, call: Call) -> Value:
    dtype = parse_dtype(call.get("dtype", 1), call.place)
    target = call.get("model", 0) or UNKNOWN
    for item in (*list_values(target), *(target.items if isinstance(target, Seq) else ())):
        if isinstance(item, Ref):
            set_trained_dtype(it, item.id, dtype if dtype != NONE else Dtype("float32", call.place))
    return NONE


def _checkpoint(it: Interpreter, call: Call) -> Value:
    """torch.utils.checkpoint.checkpoint(block, x)."""
    block = call.get("function", 0) or UNKNOWN
    it.emit(call.event("checkpoint", block=block))
    return UNKNOWN


def _lerp(it: Interpreter, call: Call) -> Value:
    """torch.lerp(average, parameter, weight) and its like for lists."""
    first, second = [*call.args, UNKNOWN, UNKNOWN][:2]
    if isinstance(first, Element) and isinstance(second, Element):
        note_average(it, Ref(first.of), Ref(second.of), call)
    return UNKNOWN


def _moving_average(it: Interpreter, call: Call) -> Value:
    model = call.get("model", 0) or UNKNOWN
    thing = it.thing(model) if isinstance(model, Ref) else None
    return it.allocate(thing.with_changes(optimized=FALSE, role=Const("copy"))) if thing else UNKNOWN


def _unsafe_loss(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("unsafe loss"))
    return UNKNOWN


def _context(name: str) -> CallModel:
    """Return the model of a class whose objects are contexts, and decorators as the class itself is."""
    return lambda _, call: UNKNOWN if call.args or call.kwargs else ExternalName(name)


CALLS: dict[str, CallModel] = {
    **dict.fromkeys(("torch.autograd.backward", "torch.Tensor.backward"), _backward),
    **{
        f"torch.nn.utils.clip_{name}": _clip
        for name in ("grad_norm_", "grad_norm", "grad_value_", "grads_with_norm_")
    },
    **{name: _context(name) for name in ("torch.no_grad", "torch.inference_mode")},
    "deepspeed.add_config_arguments": lambda _, call: call.get("parser", 0) or UNKNOWN,
    **dict.fromkeys(  # the same parameters
        ("torch.compile", "torch.nn.SyncBatchNorm.convert_sync_batchnorm"),
        lambda _, call: call.get("model", 0) or call.first,
    ),
    "torch.nn.functional.binary_cross_entropy": _unsafe_loss,
    "torch.nn.Parameter": _parameter,
    **dict.fromkeys(("torch.set_default_dtype", "torch.set_default_tensor_type"), _set_default_dtype),
    "torch.get_default_dtype": lambda it, _: it.default_dtype,
    "torch.utils.checkpoint.checkpoint": _checkpoint,
    **dict.fromkeys(("torch.lerp", "torch._foreach_lerp_"), _lerp),
    "torch.optim.swa_utils.AveragedModel": _moving_average,
    "diffusers.training_utils.cast_training_params": _cast_training_params,
}

_SCALERS = (
    *("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.GradScaler"),
    "torch.cuda.amp.grad_scaler.GradScaler",
)
_SHARDED_SCALER = "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler"
_AUTOCASTS = ("torch.cuda.amp.autocast", "torch.amp.autocast", "torch.autocast", "torch.cpu.amp.autocast")

CLASSES: dict[str, str] = {
    **dict.fromkeys((*_SCALERS, "torch.amp.grad_scaler.GradScaler", _SHARDED_SCALER), "scaler"),
    **dict.fromkeys(("torch.optim.Optimizer", "torch.optim.optimizer.Optimizer"), "optimizer"),
    **dict.fromkeys((*_AUTOCASTS, "torch.amp.autocast_mode.autocast"), "autocast"),
}

CONSTRUCT: dict[str, ConstructorModel] = {"optimizer": _optimizer, "scaler": _scaler, "autocast": _autocast}

METHODS: dict[tuple[str, str], MethodModel] = {
    ("optimizer", "step"): _optimizer_step,
    ("scaler", "scale"): _scaler_scale,
    ("scaler", "unscale_"): _scaler_unscale,
    ("scaler", "step"): _scaler_step,
    ("scaler", "update"): _scaler_update,
    **dict.fromkeys((("autocast", "__enter__"), ("autocast", "__call__")), _autocast_entered),
}


def _optimizer_of_timm(it: Interpreter, name: str, call: Call) -> Value:
    """timm.optim.create_optimizer(args, model), create_optimizer_v2(model_or_params, opt=...)."""
    number = 0 if name.endswith("_v2") else 1
    given = call.get("model_or_params" if number == 0 else "model", number) or UNKNOWN
    refs = [item for item in list_values(given) if isinstance(item, Ref) and it.kind(item) == "model"]
    models = [Element(item.id, "parameters") for item in refs]
    ref = it.allocate(HeapObject("optimizer", call.place))
    kept = replace(call, args=(Seq(tuple(models)) if models else given,), kwargs={}, open=True)
    _optimizer(it, ref, name, kept)
    return ref


_WRAPPERS = frozenset({"ORTModule", "convert_syncbn_model"})  # of other libraries, around a model


def call_by_form(it: Interpreter, name: str, call: Call) -> Value | None:
    """Return what makes a model without being a class: torchvision.models.resnet50(), timm.create_model()."""
    root, last = root_and_last(name)
    if name.startswith("torch.nn.Module.") and call.args and isinstance(call.args[0], Ref):
        return it.library.method(it, call.args[0], last, replace(call, args=call.args[1:]))
    if root == "apex" and last == "DistributedDataParallel":
        return ddp(it, call, buffers=False)
    if root in ("torch_ort", "onnxruntime", "apex") and last in _WRAPPERS:
        return call.first
    if name.startswith(("torchvision.models.", "timm.create_model")) and last[:1].islower():
        return it.allocate(make_model(call.place, _default_dtype(it, call.place), __name__=Const(name)))
    if root == "timm" and last in ("create_optimizer", "create_optimizer_v2"):
        return _optimizer_of_timm(it, name, call)
    if name.startswith("torch.optim.lr_scheduler.") or (
        root in ("transformers", "diffusers") and "_schedule" in last
    ):
        return schedule_of(it, call, last)
    if name.startswith("torch.optim.") and last[:1].isupper():
        ref = it.allocate(HeapObject("optimizer", call.place))
        _optimizer(it, ref, name, call)
        return ref
    return None
