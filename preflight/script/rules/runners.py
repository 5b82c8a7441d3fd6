"""Rules V305, V306 and P138: what Lightning and DeepSpeed refuse, and loops in which nothing is prepared."""

import math
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import UNCALLED, UNREACHED
from preflight.script.interpreter.config_files import load_config
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.lightning import LAUNCHED
from preflight.script.library_names import root_and_last
from preflight.script.rules.demanded_ranks import find_demanded_ranks
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Class, Const, Map, Seq, Value
from preflight.script.values.constants import FALSE, NONE
from preflight.script.values.operations import as_text, list_values, place_of

_PRECISIONS = frozenset(
    {
        *("64", "64-true", "32", "32-true", "16", "16-mixed", "16-true", "bf16", "bf16-mixed", "bf16-true"),
        *("transformer-engine", "transformer-engine-float16", "None"),
    }
)
_NO_STRATEGIES = frozenset(
    {
        *("dp", "ddp2", "ddp_sharded", "ddp_sharded_spawn", "ddp_fully_sharded", "fsdp_native", "horovod"),
        *("colossalai", "bagua", "hivemind", "dataparallel", "distributed", "ddp_cpu"),
    }
)
"""Strategies that the Trainer of Lightning 2 does not know; Fabric has dp."""
_ACCELERATORS = frozenset({"ddp", "dp", "ddp2", "ddp_spawn", "ddp_cpu", "horovod", "fsdp", "deepspeed"})
"""Strategies that Lightning once took for accelerator=."""
_GONE = {
    "gpus": "accelerator='gpu', devices=",
    "num_processes": "accelerator='cpu', devices=",
    "distributed_backend": "strategy=",
    "amp_backend": "precision=",
    "amp_level": "precision=",
    "resume_from_checkpoint": "trainer.fit(..., ckpt_path=)",
    "replace_sampler_ddp": "use_distributed_sampler=",
    "auto_select_gpus": "devices='auto'",
    "weights_summary": "enable_model_summary=",
    "progress_bar_refresh_rate": "enable_progress_bar=, TQDMProgressBar(refresh_rate=)",
    "checkpoint_callback": "enable_checkpointing=",
    "auto_lr_find": "Tuner(trainer).lr_find(model)",
    "auto_scale_batch_size": "Tuner(trainer).scale_batch_size(model)",
    "track_grad_norm": "log it in on_before_optimizer_step",
    "reload_dataloaders_every_epoch": "reload_dataloaders_every_n_epochs=1",
    "terminate_on_nan": "detect_anomaly=",
}
"""Arguments that the Trainer has no longer from Lightning 2 on, with what replaces each."""
_PARTED = re.compile(r"ddp|fsdp|deepspeed")


@rule("V305", "lightning", "fit", "prepared")
def refused_by_lightning(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Lightning's Trainer or Fabric is given what it refuses.

    A precision or strategy that it does not know, an argument that went with Lightning 2, clipping or
    accumulation beside manual optimization; Fabric with several devices, whose launch() is never called
    (`fabric run` calls it). Each raises before the first step.
    Source: lightning/pytorch/trainer/connectors and lightning/fabric/fabric.py.
    """
    if event.name == "fit":
        yield from _by_manual_optimization(it, event)
        return
    thing = it.thing(event.ref)
    if event.name == "prepared":
        if thing is not None and thing.kind == "fabric" and _is_never_launched(it, thing.get("made_by")):
            message = "Fabric has several devices, and nothing but `fabric run` calls launch()"
            fix = "fabric.launch() after Fabric(...)"
            yield RuleHit(thing.place, message, fix, Level.WARNING, (event.place,))
        return
    call = event.call
    if thing is None or call is None or call.open:
        return
    fabric = thing.kind == "fabric"
    given = [str(item.value) for item in list_values(event.values["given"]) if isinstance(item, Const)]
    if given and not _PRECISIONS.intersection(given):
        message = f"precision={given[0]!r} is none that Lightning knows"
        yield RuleHit(call.get_place("precision"), message, _precision(given[0]), Level.ERROR)
    strategy, accelerator = call.get("strategy", 1), call.get("accelerator", 0)
    lightnings = [it.target.is_at_least(name, 2) for name in ("lightning", "pytorch-lightning")]
    if not fabric and False not in lightnings and not it.sources.mention(_REGISTERS):
        pairs = (("strategy", strategy, _NO_STRATEGIES), ("accelerator", accelerator, _ACCELERATORS))
        refused = {
            word: (f"{word}={text!r} is none that Lightning 2 knows", 'strategy="ddp"')
            for word, value, names in pairs
            if (text := as_text(value)) in names
        }
        for old in _GONE.keys() & call.kwargs.keys() - call.maybe:
            refused[old] = (f"Trainer({old}=) is gone in Lightning 2", _GONE[old])
        known = True in lightnings or not refused
        of_before = not known and it.sources.mention(_OF_LIGHTNING_1)
        level = Level.INFO if of_before else Level.WARNING
        for word, (message, fix) in refused.items():
            yield RuleHit(call.get_place(word), message, fix, level)
    yield from _of_one_device(it, call, strategy)


_OF_LIGHTNING_1 = re.compile(  # what Lightning 1 alone has: it runs the script
    r"def (?:training|validation|test)_epoch_end\(|from_argparse_args|\boptimizer_idx\b"
)
_REGISTERS = re.compile(r"StrategyRegistry|STRATEGY_REGISTRY|register_strategies")


def _precision(word: str) -> str:
    return 'precision="bf16-mixed"' if word.startswith("b") else 'precision="16-mixed"'


def _of_one_device(it: Interpreter, call: Call, strategy: Value | None) -> Iterator[RuleHit]:
    """Yield devices=[0] beside a strategy of several ranks, or in a launch of several."""
    devices = call.get("devices", 2)
    one = isinstance(devices, Seq) and len(devices.items) == 1 and not devices.open
    several = (it.target.processes or 1) > 1
    parted = _PARTED.match(as_text(strategy) or "") and call.get("num_nodes") in (None, NONE, Const(1))
    if one and (several or parted) and it.target.processes != 1:
        what = "a strategy" if parted else "a launch"
        message = f"one device by its number, and {what} of several ranks: the others have none"
        level = Level.ERROR if several else Level.INFO  # on one GPU such a strategy trains as well
        yield RuleHit(call.get_place("devices"), message, 'devices="auto"', level)


_AUTOMATIC = "automatic_optimization"


def _by_manual_optimization(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    made, cls = it.attr(event.values["trainer"], "made_by"), it.attr(event.ref, "__class__")
    infos = it.mro(cls.key) if isinstance(cls, Class) else ()
    of_class = next((info.names[_AUTOMATIC] for info in infos if _AUTOMATIC in info.names), NONE)
    if it.attr(event.ref, _AUTOMATIC, of_class) != FALSE or not isinstance(made, Const):
        return
    call = it.kept[int(made.value or 0)]
    for word, plain in (("gradient_clip_val", (0, 0.0, None)), ("accumulate_grad_batches", (1, None))):
        value = call.get(word)
        if isinstance(value, Const) and value.value not in plain:
            message = f"{word}= beside manual optimization, which Lightning refuses"
            fix = "self.clip_gradients(...) in training_step" if word[0] == "g" else "count in training_step"
            yield RuleHit(call.get_place(word), message, fix, Level.ERROR)


def _is_never_launched(it: Interpreter, made: Value) -> bool:
    call = it.kept[int(made.value or 0)] if isinstance(made, Const) else None
    if call is None or call.open or it.notes.get(LAUNCHED) or it.target.processes == 1:
        return False
    devices, strategy = call.get("devices", 2), as_text(call.get("strategy", 1)) or ""
    several = isinstance(devices, Const) and devices.value not in (1, "1", None, "auto", -1)
    several = several or (isinstance(devices, Seq) and len(devices.items) > 1)
    plain = not (call.args or call.kwargs)  # whose options are those of `fabric run`
    known = (
        several or (bool(_PARTED.match(strategy)) and devices is None) or (it.target.processes and not plain)
    )
    if not known or it.sources.mention(_LAUNCHES):
        return False
    return not any(it.sources.parser.make(_names_fabric_run, source.text) for source in it.sources.files())


def _names_fabric_run(text: str) -> bool:
    """Whether a script says, in comments too, that `fabric run` starts it."""
    return _FABRIC_RUN.search(text) is not None


_LAUNCHES = re.compile(r"\blaunch\b|\.run\(")
_FABRIC_RUN = re.compile(r"\b(?:fabric|lightning) run\b|# *fabric\.launch\(")
_PREPARES = re.compile(r"\.prepare(?!_data)")
_MAY_PREPARE = re.compile(r"\.setup(?:_module|_optimizers)?\(|getattr\(|(?<!def )\b\w+\(self[,)]")
_RAW = "backward of what nothing prepared"


@rule("P138", "backward", "end")
def nothing_prepared(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """accelerator.backward(loss) in a loop, and prepare() is called nowhere; fabric.setup() is alike.

    The model stays on the CPU, every rank trains one of its own on all of the data, and accelerate's fp16
    scales a loss whose optimizer knows nothing of it.
    Source: accelerate/accelerator.py, prepare and backward; lightning/fabric/fabric.py.
    """
    if event.name == "backward":
        thing = it.thing(event.ref)
        reached = not any(name.startswith((UNCALLED, UNREACHED)) for name in it.contexts)
        if event.what == "accelerator" and thing is not None and thing.get("touched") == NONE:
            named = thing.kind in ("accelerator", "fabric") and root_and_last(
                as_text(thing.get("__name__")) or ""
            )
            if named and it.loop_depth and reached:
                it.note(_RAW, event.place)
    elif places := it.notes.get(_RAW):
        if it.sources.mention(_PREPARES) or it.sources.mention(_MAY_PREPARE):
            return
        message = "nothing of this loop is prepared: no model, no optimizer, no data"
        fix = "model, optimizer, loader = accelerator.prepare(model, optimizer, loader), or fabric.setup"
        yield RuleHit(places[0], message, fix, Level.WARNING)


_SIZES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_OTHER_PARALLELISM = re.compile(r"PipelineModule|\bmpu\b|tensor_parallel|sequence_parallel|mesh_param")


@rule("V306", "sharded", "arguments")
def batches_that_deepspeed_refuses(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The batch sizes of a DeepSpeed config do not fit each other, or the number of ranks.

    train_batch_size has to be train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks: DeepSpeed
    asserts it before the first step. A number that the two do not divide fits no number of ranks. How many
    ranks a script demands (`assert world_size == 8`) counts where the launch is not known. Sizes beside
    TrainingArguments have to be those of its own arguments, or "auto".
    Source: deepspeed/runtime/config.py, _batch_assertion; transformers/integrations/deepspeed.py.
    """
    given = event.values.get("config") or it.attr(event.ref, "deepspeed")
    config = given if isinstance(given, Map) else load_config(it, given)
    if not isinstance(config, Map) or config.open or config.get("elasticity"):  # which sets the sizes
        return
    yield from _beside_arguments(it, event, config) if event.name == "arguments" else ()
    values = [value for name in _SIZES if (value := config.get(name)) is not None]
    by_option = it.target.args is None and any(place_of(value) in it.options.places for value in values)
    sizes = [value.value for value in values if isinstance(value, Const) and type(value.value) is int]
    if len(sizes) < len(values) or not config.get(_SIZES[0]) or min(sizes) < 1 or by_option:
        return
    train, parts = sizes[0], sizes[1:]
    apart = it.sources.mention(_OTHER_PARALLELISM)
    ranks = None if apart else it.target.processes or find_demanded_ranks(it)
    world = ranks or 1
    unit = math.prod(parts) * world
    exact = len(parts) == 2 and ranks
    if train != unit if exact else train % unit:
        written = " x ".join((*map(str, parts), *([f"{world} ranks"] if world > 1 else [])))
        what = f"{written} = {unit}" if exact else f"a multiple of {written}"
        message = f"train_batch_size {train} is not {what}, which DeepSpeed refuses"
        fix = f"write {unit if exact else max(unit, train // unit * unit)}, or leave it out"
        yield RuleHit(config.places.get(_SIZES[0], event.place), message, fix, Level.ERROR, (event.place,))


_SAME = (
    (_SIZES[1], "per_device_train_batch_size", Const(8)),
    (_SIZES[2], "gradient_accumulation_steps", Const(1)),
)


def _beside_arguments(it: Interpreter, event: ScriptEvent, config: Map) -> Iterator[RuleHit]:
    """Yield sizes of a DeepSpeed config that are not those of the TrainingArguments that it is given to."""
    thing = it.thing(event.ref)
    for name, own, default in _SAME if thing is not None and thing.get("open") == FALSE else ():
        there, here = config.get(name), it.attr(event.ref, own)
        plain = (
            here == NONE and thing is not None and thing.get("parsed") == NONE and thing.get("trl") == FALSE
        )
        here = default if plain else here
        known = all(isinstance(item, Const) and type(item.value) is int for item in (there, here))
        if known and there != here and place_of(here) not in (it.options.places if place_of(here) else ()):
            numbers = [getattr(item, "value", None) for item in (there, here)]
            message = f"{name} {numbers[0]} is not {own} {numbers[1]}, which transformers refuses"
            yield RuleHit(
                config.places.get(name, event.place), message, '"auto"', Level.ERROR, (event.place,)
            )
