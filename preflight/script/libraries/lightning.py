"""Lightning: its Trainer, which runs the loop itself, and Fabric, which leaves the loop to the script."""

from collections.abc import Iterator
from dataclasses import replace

from preflight.facts.script import CodeLocation, LightningSize
from preflight.script.interpreter.branch_conditions import RANK_0
from preflight.script.interpreter.calls import call_value
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import CallModel, ConstructorModel, Interpreter, MethodModel
from preflight.script.libraries.callbacks import call_methods, make_instances
from preflight.script.libraries.casts import cast
from preflight.script.libraries.collectives import emit_collective, model_method
from preflight.script.libraries.huggingface import backward, prepare_objects, return_owner
from preflight.script.library_names import root_and_last
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, Dtype, Element, Func, Map, Ref, Seq, Value
from preflight.script.values.constants import FALSE, NONE, UNKNOWN
from preflight.script.values.operations import as_text, join, list_values, place_of

ROOTS = frozenset({"lightning", "pytorch_lightning", "lightning_fabric"})
_KINDS = {"Trainer": "lightning trainer", "Fabric": "fabric", "LightningModule": "model"}
LAUNCHED = "launched by Fabric"
_MIXED = {
    "16": "fp16",
    "16-mixed": "fp16",
    "bf16": "bf16",
    "bf16-mixed": "bf16",
    **dict.fromkeys(("16-true", "bf16-true", "32", "32-true", "64", "64-true"), "no"),
}
_TRUE = {"16-true": "float16", "bf16-true": "bfloat16"}
_BEFORE = ("configure_model", "setup", "on_fit_start")
_START = (
    *("train_dataloader", "val_dataloader"),
    *("on_sanity_check_start", "on_sanity_check_end", "on_train_start"),
)
_TURN = (
    *("on_train_epoch_start", "on_train_batch_start", "on_before_zero_grad", "training_step"),
    *("on_before_backward", "on_after_backward", "on_before_optimizer_step"),
)
_BETWEEN = (
    *("on_train_batch_end", "on_validation_start", "on_validation_epoch_start", "on_validation_batch_start"),
    *("validation_step", "on_validation_batch_end", "on_validation_epoch_end", "on_validation_end"),
    *("on_train_epoch_end", "on_save_checkpoint"),
)


def find_class_kind(name: str) -> str:
    """Return the kind of thing that a class of Lightning makes, "" when it is none of these."""
    root, last = root_and_last(name)
    return _KINDS.get(last, "") if root in ROOTS else ""


def _construct(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    """Trainer(precision=...) and Fabric(precision=...): what they make of parameters and gradients."""
    fabric = root_and_last(name)[1] == "Fabric"
    given = call.get("precision", 4 if fabric else None)
    if given in (None, NONE):
        given = _of_plugins(call.get("plugins")) or given or (UNKNOWN if call.open else NONE)
    asks_cpu = as_text(call.get("accelerator")) == "cpu"
    on_cpu = asks_cpu or it.target.capability is None
    words = [_word(item) for item in list_values(given)]
    mixed = join(_mixed(word, on_cpu=on_cpu) for word in words)
    place = call.get_place("precision")
    it.change(
        ref.id,
        mixed_precision=mixed,
        requested=join(_requested(word, on_cpu=on_cpu) for word in words),
        requested_at=Dtype("at", place),
        true=join(Dtype(_TRUE[word], place) if word in _TRUE else NONE for word in words),
        sharded=Const(_shards(call)),
        cpu=Const(asks_cpu),
        callbacks=call.get("callbacks") or NONE,
        devices=call.get("devices") or call.get("gpus") or NONE,
        samplers=_samplers(call),
        made_by=Const(it.keep(call)),
        who=Const("Fabric" if fabric else "Lightning"),
        how=Const("fabric.backward(loss)" if fabric else "self.manual_backward(loss)"),
    )
    it.emit(call.event("lightning", ref.id, given=given))


def _of_plugins(given: Value | None) -> Value | None:
    """Return the precision that a plugin sets; reading represents such a plugin by that word."""
    held = given.items if isinstance(given, Seq) else (given,)
    return next((item for item in held if as_text(item) in _MIXED), None)


def _precision_plugin(_it: Interpreter, call: Call) -> Value:
    """MixedPrecision("16-mixed", device), HalfPrecision("bf16-true")."""
    return call.get("precision", 0) or UNKNOWN


def _word(value: Value) -> str | None:
    """Return a precision as Lightning spells it: 16 is "16", None is "32-true"."""
    if value == NONE:
        return "32-true"
    return str(value.value) if isinstance(value, Const) else None


def _mixed(word: str | None, *, on_cpu: bool) -> Value:
    known = _MIXED.get(word or "")
    return Const("bf16" if on_cpu and known == "fp16" else known) if known else UNKNOWN


def _requested(word: str | None, *, on_cpu: bool) -> Value:
    true = {"16-true": "fp16", "bf16-true": "bf16"}.get(word or "")
    return Const(true) if true else _mixed(word, on_cpu=on_cpu)


def _samplers(call: Call) -> Value:
    """Return whether a Trainer gives each rank its part: a strategy that is an object may do so itself."""
    given = call.get("use_distributed_sampler") or call.get("replace_sampler_ddp") or NONE
    return given if as_text(call.get("strategy", 1) or Const("auto")) else NONE


def _shards(call: Call) -> bool:
    written = [unparse(word.value) for word in call.node.keywords if word.arg in ("strategy", "plugins")]
    strategy = as_text(call.get("strategy", 1)) or ""
    return any(
        name in f"{strategy} {' '.join(written)}".lower() for name in ("fsdp", "deepspeed", "modelparallel")
    )


def _own(it: Interpreter, model: Ref, trainer: Ref) -> None:
    """Note what a Trainer or Fabric does to a model that it is given."""
    thing, owner = it.thing(model), it.thing(trainer)
    if thing is None or owner is None:
        return
    it.change(model.id, accelerator=trainer)
    true = owner.get("true")
    if true != NONE:
        cast(it, model, true, sure=isinstance(true, Dtype))


# --- the Trainer ------------------------------------------------------------------------
def _fit(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """trainer.fit(model): the hooks in their order, and a step of each optimizer before and after them."""
    for model in list_values(call.get("model", 0) or UNKNOWN):
        known = isinstance(model, Ref) and it.kind(model) == "model"
        if isinstance(owner, Ref) and (known or it.attr(owner, "callbacks") != NONE):
            _fit_one(it, owner, model if known else UNKNOWN, call)
    return NONE


def _group(it: Interpreter, owner: Ref | Element) -> None:
    """Note that a Trainer or Fabric makes a process group, where it has several devices."""
    thing = it.thing(owner)
    if thing is not None and not _is_of_one(it, thing.get("devices")):
        it.state.grouped = True
        it.emit(ScriptEvent("joined", thing.place, None))


def _is_of_one(it: Interpreter, devices: Value) -> bool:
    """Whether a Trainer has one device on each path: devices=1, devices=[0]; a launch gives an option's."""
    if (it.target.processes or 1) > 1 and place_of(devices) in it.options.places:
        return False
    return all(
        (isinstance(item, Seq) and len(item.items) == 1) or item in (Const(1), Const("1"))
        for item in list_values(devices)
    )


def _fit_one(it: Interpreter, trainer: Ref, model: Value, call: Call) -> None:
    seen = Call(call.node, call.place, (), {}, {}, open=True)
    it.state.device_set = True
    _group(it, trainer)
    if isinstance(model, Ref):
        it.change(model.id, trainer=trainer)
        it.emit(call.event("fit", model.id, trainer=trainer))
    callbacks = make_instances(it, it.attr(trainer, "callbacks"), seen)

    data = (call.get("train_dataloaders", 1) or NONE, call.get("datamodule", 3) or NONE)
    modules = (*(item for value in data for item in list_values(value)), model)

    def hooks(names: tuple[str, ...]) -> None:
        """Callbacks are called before the data module and the model."""
        for callback in callbacks.items:
            call_methods(it, callback, names, replace(seen, args=(trainer, model)))
        for module in modules:
            call_methods(it, module, names, seen)

    it.contexts.append(RANK_0)
    hooks(("prepare_data",))
    it.contexts.remove(RANK_0)
    hooks(_BEFORE)
    if isinstance(model, Ref):
        _own(it, model, trainer)
    optimizers = list(_optimizers(call_methods(it, model, ("configure_optimizers",), seen)))
    for optimizer in optimizers:
        it.change(optimizer.id, accelerator=trainer)
    hooks(_START)
    it.contexts.append("training")
    it.loop_depth += 1
    makers = modules if it.attr(trainer, "samplers") == FALSE and it.state.grouped else ()
    made = (call_methods(it, module, ("train_dataloader",), seen) for module in makers)
    for loader in (item for value in (*makers, *made) for item in list_values(value)):
        if isinstance(loader, Ref) and it.kind(loader) == "loader":
            it.emit(ScriptEvent("own data", call.place, loader.id))
    for after in (_BETWEEN, ()):
        hooks(_TURN)
        for optimizer in optimizers:
            it.library.method(it, optimizer, "step", call.with_arguments())
        hooks(after)
    it.loop_depth -= 1
    it.contexts.remove("training")


def _save_checkpoint(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """trainer.save_checkpoint(path), which ends with a barrier."""
    if not _is_of_one(it, it.attr(owner, "devices")):
        emit_collective(it, call, "save_checkpoint")
    return NONE


def _optimizers(value: Value) -> Iterator[Ref]:
    """Yield the optimizers in what configure_optimizers gave: one, a list, two lists, a dict, dicts."""
    for item in list_values(value):
        if isinstance(item, Ref):
            yield item
        elif isinstance(item, Seq):
            for inner in item.items:
                yield from _optimizers(inner)
        elif isinstance(item, Map):
            yield from _optimizers(item.get("optimizer") or UNKNOWN)


# --- Fabric -----------------------------------------------------------------------------
def _launch(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """fabric.launch() sets the rank's device; fabric.launch(function, ...) then calls it."""
    it.state.device_set = True
    it.note(LAUNCHED, call.place)
    _group(it, owner)
    if call.args and isinstance(call.args[0], Func) and isinstance(owner, Ref):
        return call_value(it, call.args[0], replace(call, args=(owner, *call.args[1:])))
    return UNKNOWN


def _setup(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """fabric.setup(model, optimizer): the same objects, wrapped."""
    for item in (inner for argument in call.args for inner in list_values(argument)):
        if isinstance(item, Ref) and isinstance(owner, Ref) and it.kind(item) == "model":
            _own(it, item, owner)
    return prepare_objects(it, owner, call)


_ALL = ("auto", "-1")
_FABRIC_PLACES = {"accelerator": 0, "devices": 2, "num_nodes": 3}


def parse_size(call: Call, place: CodeLocation, *, is_fabric: bool) -> LightningSize:
    """Return what a call of Trainer or Fabric says; both default to all devices of one node."""

    def given(name: str) -> Value | None:
        return call.get(name, _FABRIC_PLACES[name] if is_fabric else None)

    devices, nodes = given("devices"), given("num_nodes")
    return LightningSize(
        place=place,
        call="Fabric" if is_fabric else "Trainer",
        devices=_devices(devices) if devices is not None else (0 if call.open else -1),
        nodes=_count(nodes) if nodes is not None else (0 if call.open else 1),
        on_cpu=as_text(given("accelerator")) == "cpu",
    )


def _devices(value: Value) -> int:
    """Return the number of devices; -1 is all, 0 not known. Indices can be a list or text: "0,1"."""
    if value in (NONE, Const(-1)):
        return -1
    if isinstance(value, Seq):
        return 0 if value.open else len(value.items)
    text = as_text(value)
    if text in _ALL:
        return -1
    if text is not None and "," in text:
        return len([part for part in text.split(",") if part.strip()])
    if text is not None and text.isascii() and text.isdecimal():
        return int(text)
    return _count(value)


def _count(value: Value) -> int:
    number = value.value if isinstance(value, Const) else None
    return number if isinstance(number, int) and number > 0 else 0


CALLS: dict[str, CallModel] = {
    **{
        f"{package}.plugins.{module}{name}": _precision_plugin
        for package in ("pytorch_lightning", "lightning.pytorch", "lightning.fabric", "lightning_fabric")
        for module in ("", "precision.")
        for name in ("MixedPrecision", "MixedPrecisionPlugin", "HalfPrecision")
    }
}

CONSTRUCT: dict[str, ConstructorModel] = {"lightning trainer": _construct, "fabric": _construct}

METHODS: dict[tuple[str, str], MethodModel] = {
    ("lightning trainer", "fit"): _fit,
    ("lightning trainer", "save_checkpoint"): _save_checkpoint,
    ("fabric", "launch"): _launch,
    ("fabric", "setup"): _setup,
    ("fabric", "setup_module"): _setup,
    ("fabric", "setup_optimizers"): _setup,
    ("fabric", "backward"): backward,
    **{("strategy", name): model_method(name) for name in ("barrier", "broadcast", "reduce", "all_gather")},
    **{("fabric", name): return_owner for name in ("clip_gradients", "load", "print")},
}
