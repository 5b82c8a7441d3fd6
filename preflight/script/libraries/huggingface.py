"""accelerate, transformers, trl, peft and diffusers: who decides the precision, and what is trained."""

from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, ConstructorModel, Interpreter, MethodModel
from preflight.script.libraries import callbacks, hf_arguments
from preflight.script.libraries.casts import cast
from preflight.script.libraries.environment import resolve_precision
from preflight.script.libraries.models import attach_adapters, make_model, parse_dtype
from preflight.script.libraries.optimizer_steps import unscale_gradients
from preflight.script.libraries.services import fits_float16, init_trackers, is_in_float32, load_from_hub
from preflight.script.libraries.weight_shards import save_model, shards_by_arguments, shards_by_plugins
from preflight.script.library_names import MODEL_MAKERS, is_model_class, root_and_last
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, Dtype, Element, Map, RankValue, Ref, Seq, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, as_text, get_id, list_values

# --- accelerate -------------------------------------------------------------------------


def _accelerator(it: Interpreter, ref: Ref, _name: str, call: Call) -> None:
    given = call.get("mixed_precision", 2)
    if given is None and call.open:
        given = UNKNOWN
    requested = NONE if given is None else given
    effective = resolve_precision(it, requested)
    plugins = [call.get(name) for name in ("deepspeed_plugin", "fsdp_plugin", "megatron_lm_plugin")]
    shards = any(plugin is not None and plugin != NONE for plugin in plugins)
    it.change(
        ref.id,
        mixed_precision=effective,
        requested=requested,
        sharded=Const(shards),
        always_sharded=Const(any(NONE not in list_values(plugin or NONE) for plugin in plugins)),
        cpu=call.get("cpu") or FALSE,
        requested_at=Dtype("at", call.get_place("mixed_precision")),
        open=Const(call.open),
        parts=Const(shards and shards_by_plugins(it, call)),
        steps_once=Const(_steps_once(call)),
        log_with=call.get("log_with") or NONE,
    )
    it.state.device_set = it.state.grouped = True
    values = {"requested": requested, "effective": effective}
    it.emit(call.event("accelerator", ref.id, **values))


def _steps_once(call: Call) -> bool:
    """Whether a prepared scheduler may make one step at a time, whatever the number of ranks."""
    if as_bool(call.get("split_batches", 1) or FALSE) is not False:
        return True
    if any(call.get(name) not in (None, NONE) for name in ("dataloader_config", "deepspeed_plugin")):
        return True
    return as_bool(call.get("step_scheduler_with_optimizer") or TRUE) is not True


def _partial_state(it: Interpreter, _ref: Ref, _name: str, _call: Call) -> None:
    it.state.device_set = True


def prepare_objects(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """accelerator.prepare(model, optimizer), fabric.setup(...): the same objects, wrapped."""
    it.note("prepared", *map(it.place, call.node.args))
    if isinstance(owner, Ref):
        it.change(owner.id, prepares=TRUE, **({"prepares_more": TRUE} if call.open else {}))
        it.state.wrapped = it.state.wrapped or (not call.open and _prepares_model(it, call))
    for item in (inner for argument in call.args for inner in list_values(argument)):
        if isinstance(item, Ref) and isinstance(owner, Ref):
            it.change(item.id, accelerator=owner)
            if it.kind(item) == "model":
                it.change(item.id, prepared=TRUE, parts=it.attr(owner, "parts"))
                it.emit(call.event("prepare", item.id, accelerator=owner))
    it.emit(call.event("prepared", get_id(owner)))
    return call.args[0] if len(call.args) == 1 else Seq(call.args, call.open)


def _prepares_model(it: Interpreter, call: Call) -> bool:
    return any(it.kind(item) == "model" for given in call.args for item in list_values(given))


def backward(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """accelerator.backward(loss), fabric.backward(loss)."""
    it.state.scaled = False
    it.emit(call.event("backward", get_id(owner), "accelerator"))
    for item in list_values(call.first):
        scaler = item.get("__scaler__") if isinstance(item, Map) else None
        if isinstance(scaler, Ref):
            it.emit(call.event("scaled twice", scaler.id))
    return NONE


def _first(_it: Interpreter, _owner: Ref | Element, call: Call) -> Value:
    return call.first


def return_owner(_it: Interpreter, _owner: Ref | Element, _call: Call) -> Value:
    """A method that leaves what it is given as it is."""
    return UNKNOWN


# --- loading ----------------------------------------------------------------------------


def call_by_form(it: Interpreter, name: str, call: Call) -> Value | None:
    """Return what `SomeModel.from_pretrained(...)` and its like give, None for other calls."""
    owner, _, last = name.rpartition(".")
    if last in MODEL_MAKERS:
        load_from_hub(it, call)
        return _loaded(it, owner, last, call)
    if last == "get_peft_model" and owner.startswith("unsloth.Fast"):
        return _get_peft_model(it, call)
    return None


_LOADERS = frozenset({"transformers", "diffusers", "trl", "unsloth", "optimum", "liger_kernel"})


def _loaded(it: Interpreter, owner: str, last: str, call: Call) -> Value | None:
    root, cls = root_and_last(owner)
    if root == "peft" and cls.startswith(("PeftModel", "AutoPeft")) and last == "from_pretrained":
        return _peft_loaded(it, cls, call)
    if root == "unsloth" and cls.startswith("Fast"):
        model = load_model(it, root, last, call)
        it.change(model.id, dtype=UNKNOWN)  # chosen for the GPU
        return Seq((model, UNKNOWN))
    if cls.endswith("Pipeline") and root == "diffusers":
        return _pipeline(it, call)
    if cls.endswith("Pipeline") or root not in _LOADERS:
        return UNKNOWN
    if not is_model_class(owner) and not cls.startswith("Auto") and not cls.endswith("Config"):
        return UNKNOWN
    if cls.endswith("Config") and root == "transformers":
        it.emit(call.event("attention"))
        return it.allocate(HeapObject("model config", call.place, {"__name__": Const(owner)}))
    if any(word in cls for word in ("Tokenizer", "Processor", "Config", "Extractor")):
        return UNKNOWN
    return load_model(it, root, last, call)


def _pipeline(it: Interpreter, call: Call) -> Value:
    """DiffusionPipeline.from_pretrained(name, unet=unet): it holds the very models that it is given."""
    held = {name: value for name, value in call.kwargs.items() if it.kind(value) == "model"}
    return it.allocate(HeapObject("pipeline", call.place, held)) if held else UNKNOWN


def _move_pipeline(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """pipeline.to(device, dtype): casts what it holds, in its place, where the dtype is known."""
    given = (*call.args, *call.kwargs.values())
    names = {item.name if isinstance(item, Dtype) else "" for value in given for item in list_values(value)}
    thing, dtypes = it.thing(owner), names - {""}
    for value in thing.attrs.values() if thing is not None and len(dtypes) == 1 else ():
        if isinstance(value, Ref) and it.kind(value) == "model":
            cast(it, value, Dtype(next(iter(dtypes)), call.place))
    return owner


def load_model(it: Interpreter, root: str, how: str, call: Call) -> Ref:
    """Put a loaded model on the heap, and send the rules an event."""
    keyword = "dtype" if "dtype" in call.kwargs else "torch_dtype"
    given = call.get(keyword)
    place = call.get_place(keyword)
    dtype = (
        _default_dtype(it, root, how, call) if given is None or given == NONE else parse_dtype(given, place)
    )
    quantized = _quantized(it, call)
    device_map = call.get("device_map") or NONE
    ref = it.allocate(
        make_model(
            call.place,
            dtype,
            quantized=quantized,
            device_map=device_map,
            device_map_at=Dtype("at", call.get_place("device_map")),
            library=Const(root),
            loaded=Const(" ".join(map(unparse, (call.node.func, *call.node.args[:1])))),
            fits_float16=Const(root == "diffusers" or fits_float16(call)),
        )
    )
    values = {"dtype": dtype, "device_map": device_map, "given": given or NONE}
    it.emit(call.event("load", ref.id, keyword if given is not None else "", **values))
    return ref


def _default_dtype(it: Interpreter, root: str, how: str, call: Call) -> Value:
    """Transformers 5 takes the checkpoint's own dtype; 4, diffusers and from_config start in float32."""
    if call.open:
        return UNKNOWN
    if root == "diffusers" or how == "from_config":
        return Dtype("float32", call.place)
    newer = it.target.is_at_least("transformers", 5)
    if newer is False or is_in_float32(call):
        return Dtype("float32", call.place)
    return Dtype("checkpoint", call.place) if newer else UNKNOWN


def _quantized(it: Interpreter, call: Call) -> Value:
    for name in ("load_in_4bit", "load_in_8bit"):
        flag = call.get(name)
        if flag is not None and as_bool(flag) is not False:
            return TRUE if as_bool(flag) else UNKNOWN
    config = call.get("quantization_config")
    if config is None or config == NONE:
        return FALSE
    return TRUE if all(it.kind(item) == "quantization" for item in list_values(config)) else UNKNOWN


def _peft_loaded(it: Interpreter, cls: str, call: Call) -> Value:
    auto = cls.startswith("AutoPeft")
    base = load_model(it, "peft", "from_pretrained", call) if auto else call.get("model", 0) or UNKNOWN
    if isinstance(base, Ref):
        autocast = call.get("autocast_adapter_dtype") or (UNKNOWN if call.open else TRUE)
        attach_adapters(it, base.id, UNKNOWN, call, autocast=autocast)
        if as_bool(call.get("is_trainable") or FALSE) is False:
            it.change(base.id, trainable=Const("none"))
    return base


def _get_peft_model(it: Interpreter, call: Call) -> Value:
    model, config = call.get("model", 0) or UNKNOWN, call.get("peft_config", 1) or UNKNOWN
    autocast = call.get("autocast_adapter_dtype", 4) or (UNKNOWN if call.open else TRUE)
    for item in list_values(model):
        if isinstance(item, Ref):
            attach_adapters(it, item.id, config, call, autocast=autocast)
    return model


def _prepare_kbit(it: Interpreter, call: Call) -> Value:
    """Casts all that is not quantized to float32 and freezes it."""
    model = call.get("model", 0) or UNKNOWN
    for item in list_values(model):
        if isinstance(item, Ref):
            it.change(
                item.id, dtype=Dtype("float32", call.place), trainable=Const("none"), inputs_require_grad=TRUE
            )
    return model


def _lora_config(it: Interpreter, ref: Ref, _name: str, call: Call) -> None:
    it.change(
        ref.id,
        modules_to_save=call.get("modules_to_save") or NONE,
        bias=call.get("bias") or Const("none"),
        extra_at=Dtype(
            "at", call.get_place("modules_to_save" if "modules_to_save" in call.kwargs else "bias")
        ),
    )


# --- trainers ---------------------------------------------------------------------------


def _trainer(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    root, last = root_and_last(name)
    model, args = call.get("model", 0) or _of_factory(it, call), call.get("args", 1) or NONE
    if last.startswith("PPO"):  # its settings come first; later versions have a tokenizer before the model
        args = call.get("args", 0) or call.get("config", 0) or NONE
        models = (item for item in call.args[1:] if it.kind(item) == "model")
        model = call.get("model") or next(models, UNKNOWN)
    config = call.get("peft_config")
    if as_text(model) is not None or (root == "trl" and _has_init_kwargs(it, model, args)):
        model = _by_name(it, args, call)
    if isinstance(model, Ref) and config is not None and config != NONE:
        attach_adapters(it, model.id, config, call, autocast=TRUE)
        if root == "trl" and it.attr(model, "quantized") == TRUE:
            it.change(model.id, adapters=Dtype("bfloat16", call.place), forced=TRUE)
    given = call.get("callbacks") or NONE
    it.change(
        ref.id,
        model=model,
        args=args,
        cls=Const(last),
        library=Const(root),
        trained=FALSE,
        callbacks=given,
        control=it.allocate(HeapObject(callbacks.CONTROL, call.place)),
        optimizers=UNKNOWN
        if call.open
        else call.get("optimizers") or call.get("optimizer_cls_and_kwargs") or NONE,
    )
    it.emit(call.event("trainer", ref.id, name, model=model, args=args))


def _has_init_kwargs(it: Interpreter, model: Value, args: Value) -> bool:
    """Whether the model can only be a name: TRL refuses model_init_kwargs beside one that is made."""
    made = any(isinstance(item, Ref) for item in list_values(model))
    return not made and isinstance(args, Ref) and isinstance(it.attr(args, "model_init_kwargs"), Map)


def _of_factory(it: Interpreter, call: Call) -> Value:
    """Return the model of `model_init`, which train() calls with the trial of a search or nothing."""
    return call_value(
        it, call.get("model_init") or UNKNOWN, Call(call.node, call.place, (), {}, {}, open=True)
    )


def _by_name(it: Interpreter, args: Value, call: Call) -> Value:
    """TRL given a model's name loads it in float32 unless model_init_kwargs say otherwise."""
    thing = it.thing(args) if isinstance(args, Ref) else None
    more = thing.get("model_init_kwargs") if thing else NONE
    if more == NONE and thing is not None and not as_bool(thing.get("open", FALSE)):
        return it.allocate(make_model(call.place, Dtype("float32", call.place)))
    if not isinstance(more, Map):
        return UNKNOWN
    named: dict[str, Value] = {name: value for name, value in more.items if isinstance(name, str)}
    places = {name: more.places.get(name, call.place) for name in named}
    load = Call(call.node, call.place, (), named, places, open=more.open)
    if "dtype" in named or "torch_dtype" in named:
        return load_model(it, "transformers", "from_pretrained", load)
    return load_model(it, "transformers", "from_config", load)  # float32, as TRL loads by name


def _train(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    if isinstance(owner, Ref):
        callbacks.run_start_callbacks(it, owner, call)
        it.emit(call.event("train", owner.id))
        for model in list_values(it.attr(owner, "model")):
            if isinstance(model, Ref) and shards_by_arguments(it, it.attr(owner, "args")):
                it.change(model.id, parts=TRUE)
        it.change(owner.id, trained=TRUE)
        callbacks.run_step_callbacks(it, owner, call)
        # What runs before it, and hooks of it, may be of its rank 0 alone.
        it.state.grouped = it.state.grouped or (it.target.processes or 1) > 1
    return UNKNOWN


def _evaluate(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    if isinstance(owner, Ref):
        it.emit(call.event("evaluate", owner.id))
    return UNKNOWN


CALLS: dict[str, CallModel] = {
    "peft.get_peft_model": _get_peft_model,
    "peft.prepare_model_for_kbit_training": _prepare_kbit,
    "peft.prepare_model_for_int8_training": _prepare_kbit,
    "peft.utils.other.prepare_model_for_kbit_training": _prepare_kbit,
    "trl.get_kbit_device_map": lambda _it, _call: Map((("", RankValue()),)),
}

CLASSES: dict[str, str] = {
    **dict.fromkeys(("accelerate.Accelerator", "accelerate.accelerator.Accelerator"), "accelerator"),
    **{f"accelerate.{module}PartialState": "partial state" for module in ("", "state.", "utils.")},
    "accelerate.state.AcceleratorState": "partial state",
    "transformers.HfArgumentParser": "hf parser",
    "trl.TrlParser": "hf parser",
    "transformers.BitsAndBytesConfig": "quantization",
    **dict.fromkeys(("peft.LoraConfig", "peft.AdaLoraConfig", "peft.LoHaConfig"), "lora"),
    "diffusers.training_utils.EMAModel": "average",
}

CONSTRUCT: dict[str, ConstructorModel] = {
    "accelerator": _accelerator,
    "partial state": _partial_state,
    "lora": _lora_config,
    "arguments": hf_arguments.construct_arguments,
    "trainer": _trainer,
    "hf parser": hf_arguments.construct_parser,
}

_HARMLESS = (
    *("accumulate", "autocast", "clip_grad_norm_", "clip_grad_value_", "join_uneven_inputs"),
    *("register_for_checkpointing", "save", "load_state"),
    *("free_memory", "clear", "log", "print", "verify_device_map", "end_training"),
)
"""Methods of Accelerator that leave a model that they are given as it is."""
_PREPARED = ("", "_model", "_optimizer", "_scheduler", "_data_loader")


METHODS: dict[tuple[str, str], MethodModel] = {
    ("trainer", "save_model"): save_model,
    ("accelerator", "unscale_gradients"): unscale_gradients,
    **dict.fromkeys((("accelerator", f"prepare{of}") for of in _PREPARED), prepare_objects),
    ("accelerator", "init_trackers"): init_trackers,
    ("accelerator", "backward"): backward,
    **dict.fromkeys((("accelerator", name) for name in ("unwrap_model", "skip_first_batches")), _first),
    **dict.fromkeys((("accelerator", name) for name in _HARMLESS), return_owner),
    ("pipeline", "to"): _move_pipeline,
    ("trainer", "train"): _train,
    ("trainer", "step"): _train,  # of trl's PPOTrainer
    ("trainer", "add_callback"): callbacks.add_callback,
    ("trainer", "evaluate"): _evaluate,
    ("trainer", "predict"): _evaluate,
    ("parser", "add_arguments"): hf_arguments.add_arguments,
    **{
        ("hf parser", f"parse_{name}"): hf_arguments.parse_dataclasses
        for name in ("args", "args_into_dataclasses", "args_and_config")
    },
    **{
        ("hf parser", f"parse_{name}"): hf_arguments.parse_values
        for name in ("dict", "json_file", "yaml_file")
    },
}
