"""Operations in which all ranks of a process group take part: a rank that is alone in one waits for ever."""

import ast

from preflight import regex as re
from preflight.script.interpreter.assignments import put_back
from preflight.script.interpreter.branch_conditions import RANK_0
from preflight.script.interpreter.contexts import NO_SYNC
from preflight.script.interpreter.events import THROUGH, Call
from preflight.script.interpreter.interpreter import CallModel, ConstructorModel, Interpreter, MethodModel
from preflight.script.libraries.casts import list_parts
from preflight.script.values import Class, Const, Element, ExternalName, Ref, Seq, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, as_text, get_id, join, list_values

FORWARD_OF_ONE = "forward of one rank"  # note of where rank 0 alone calls the model inside of DDP
AROUND = "forward around the wrapper"  # training calls the model in DDP: no exchange
UNSYNCED = "forward without an exchange"  # note of where training calls DDP under its no_sync()
OWNED = (
    "forward of a prepared model"  # note of where training calls what an Accelerator or Fabric has wrapped
)
PACKAGES = ("torch.distributed", "deepspeed.comm")  # DeepSpeed's call those of torch
_LIKE_TORCH = (
    *PACKAGES,
    *("torch.distributed.nn", "torch.distributed.nn.functional", "ignite.distributed", "mmengine.dist"),
)
_PLAIN = (
    *("barrier", "monitored_barrier", "all_reduce", "all_gather", "all_gather_object"),
    *("all_gather_into_tensor", "all_gather_single", "gather_into_tensor", "gather_single"),
    *("broadcast", "broadcast_object_list", "reduce", "gather", "gather_object", "scatter", "reduce_scatter"),
    *("scatter_object_list", "reduce_scatter_tensor", "reduce_scatter_single", "all_to_all"),
    *("all_to_all_single", "new_group"),
)
_SHARDED = (
    *("torch.distributed.checkpoint.save", "torch.distributed.checkpoint.load"),
    *("torch.distributed.checkpoint.save_state_dict", "torch.distributed.checkpoint.load_state_dict"),
    "torch.distributed.checkpoint.async_save",
    *(
        f"torch.distributed.checkpoint.state_dict.get_{name}"
        for name in ("state_dict", "model_state_dict", "optimizer_state_dict")
    ),
    *(
        f"torch.distributed.fsdp.FullyShardedDataParallel.{name}"
        for name in (
            *("optim_state_dict", "full_optim_state_dict", "sharded_optim_state_dict"),
            "summon_full_params",
        )
    ),
    "deepspeed.zero.GatheredParameters",
)
"""Functions that gather what ranks hold parts of."""
_FILLED = {
    **dict.fromkeys(("broadcast_object_list", "all_gather_object"), "object_list"),
    "scatter_object_list": "scatter_object_output_list",
}
"""The first argument, a list, of functions that put into it what other ranks send."""


_WORLD = ExternalName("torch.distributed.group.WORLD")


def emit_collective(it: Interpreter, call: Call, name: str) -> None:
    """Send the rules a collective of the whole process group, or of some group that is not known."""
    group = call.get("group") or call.get("process_group") or NONE
    if all(item in (NONE, _WORLD) for item in list_values(group)):
        it.emit(call.event("collective", None, name))


def model_call(name: str) -> CallModel:
    """Return the model of a function that all ranks must call."""

    def model(it: Interpreter, call: Call) -> Value:
        emit_collective(it, call, name)
        it.emit(call.event("exchange", None, name))
        given = [
            part.attr
            for item in call.node.args[:1]
            for part in ast.walk(item)
            if isinstance(part, ast.Attribute)
        ]
        it.state.wrapped = it.state.wrapped or (name == "all_reduce" and "grad" in given)
        _fill(it, call, name)
        if name != "new_group" or (ranks := call.get("ranks", 0) or NONE) == NONE:
            return UNKNOWN
        return it.allocate(HeapObject("process group", call.place, {"ranks": ranks}))

    return model


def _fill(it: Interpreter, call: Call, name: str) -> None:
    """Forget what each rank has put into a list that the call fills."""
    lists = list_values(call.get(_FILLED[name], 0) or NONE) if name in _FILLED else ()
    if lists and all(isinstance(item, Seq) for item in lists):  # rank 0 may give another than the others do
        named = [word.value for word in call.node.keywords if word.arg == _FILLED[name]]
        filled = [Seq((UNKNOWN,) * len(item.items), item.open) for item in lists if isinstance(item, Seq)]
        put_back(it, [*call.node.args, *named][0], join(filled))


def model_method(name: str, *, of_shards: bool = False) -> MethodModel:
    """Return the model of a method that all ranks must call, `of_shards`: under DeepSpeed and FSDP only."""

    def model(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
        thing = it.thing(owner) if of_shards else None
        sharded = thing is not None and thing.get("always_sharded") == TRUE
        if not of_shards or (sharded and (name == "save_state" or not _is_unprepared(it, call))):
            emit_collective(it, call, name)
        return UNKNOWN

    return model


def _is_unprepared(it: Interpreter, call: Call) -> bool:
    """Whether a call is about a model that is not known to be shared by the ranks: an average, a teacher."""
    given = call.get("model", 0)
    things = [it.thing(item) for item in list_values(given or NONE) if isinstance(item, Ref)]
    return given is not None and all(thing is None or thing.get("accelerator") == NONE for thing in things)


_NORMALIZED = (
    r"^torch\.nn\.(?:\w*BatchNorm)|^torchvision\.models\.(?:resne[tx]t?\d|wide_resnet|densenet|efficientnet|mobilenet"
    r"|regnet|shufflenet|mnasnet|googlenet|inception|vgg\d+_bn)"
)
"""Layers that keep running means in buffers, and networks of torchvision that have them."""
_WITH_POSITIONS = (
    r"(?i)^(?!.*(?:modern|squeeze|nomic)).*(?:bert|electra|deberta|llama|mistral|qwen|gemma|\bclip|esm2?_)"
)
"""Models of transformers that keep positions, or frequencies of them, in buffers."""


def has_buffers(it: Interpreter, model: int) -> bool:
    """Whether a model holds batch normalization or buffers of its own, which forward() of DDP broadcasts."""
    things = [thing for number in list_parts(it, model) if (thing := it.thing(number)) is not None]
    if any(re.match(_NORMALIZED, as_text(thing.get("__name__")) or "") for thing in things):
        return True
    if any(re.search(_WITH_POSITIONS, as_text(thing.get("loaded")) or "") for thing in things):
        return True
    classes = (cls for thing in things if isinstance(cls := thing.get("__class__"), Class))
    return any(
        "self.register_buffer(" in line
        for cls in classes
        for info in it.mro(cls.key)
        for line in info.source.lines[info.node.lineno : info.node.end_lineno]
    )


def note_forward(it: Interpreter, model: Ref | Element, call: Call) -> None:
    """Note that all ranks take part: FSDP gathers weights layer by layer, DDP broadcasts buffers.

    The model inside of DDP waits for no other rank, forward or backward.
    """
    thing = it.thing(model)
    if thing is None:
        return
    shared = isinstance(model, Ref) and model.shared
    wrapped = TRUE in list_values(thing.get("wrapped"))
    owned = isinstance(model, Ref) and isinstance(thing.get("accelerator"), Ref)
    trains = {"no_grad", RANK_0}.isdisjoint(it.contexts)
    if trains and (shared or wrapped or owned or _is_part_around(it, get_id(model))):
        synced = f"{NO_SYNC} {get_id(model)}" not in it.contexts
        name = (THROUGH if synced else UNSYNCED) if shared or owned else AROUND
        it.note(name, call.place)
        it.note(OWNED, *([call.place] if owned else []))
    if thing.get("forward_of_all") == TRUE:
        emit_collective(it, call, "forward")
    elif thing.get("wrapped") == TRUE and not shared and RANK_0 in it.contexts:
        it.note(FORWARD_OF_ONE, call.place)
    elif (thing.get("buffers_of_all") == TRUE and shared) or (
        owned and RANK_0 in it.contexts and _broadcasts_prepared(it, get_id(model))
    ):
        it.emit(call.event("buffers", get_id(model)))


def _broadcasts_prepared(it: Interpreter, model: int) -> bool:
    """Whether a prepared model has buffers, and nothing says that it is called inside of its wrapper."""
    return not it.sources.mention(_OTHER_FORWARDS) and has_buffers(it, model)


_OTHER_FORWARDS = re.compile(r"unwrap|\.module\b|broadcast_buffers|(?i:deepspeed|fsdp)")
"""Words in scripts whose prepared model may be no DistributedDataParallel, or is called inside of it."""
_TRAINS_NOTHING = re.compile(r"^forward|^__call__$|generat|sampl|eval|valid|test|infer|predict")
"""Names of functions that DDP calls itself, or that compute no loss."""


def _is_part_around(it: Interpreter, model: int | None) -> bool:
    """Whether a layer is called of a model in DDP, in no forward() of the script: `ddp.module.head(x)`."""
    if model is None or not it.state.wrapped or not it.drawn:
        return False
    names = (getattr(it.functions[key].node, "name", "") for key in it.stack if key in it.functions)
    if any(map(_TRAINS_NOTHING.search, names)):
        return False
    wrapped = (number for number, thing in it.state.heap.items() if thing.get("wrapped") == TRUE)
    return any(model in list_parts(it, number)[1:] for number in wrapped)


def suspend_sync(it: Interpreter, _owner: Ref | Element, call: Call) -> Value:
    """accelerator.no_sync(model), fabric.no_backward_sync(module): gradients of ranks stay apart in it."""
    model = call.get("model", 0) or call.get("module", 0)
    if not isinstance(model, Ref) or as_bool(call.get("enabled", 1) or TRUE) is not True:
        return UNKNOWN
    return it.allocate(HeapObject(f"{NO_SYNC} {model.id}", call.place))


def note_state_dict(it: Interpreter, model: int, call: Call) -> None:
    """Note that the weights of a model are gathered, if FSDP shards it."""
    if it.attr(model, "gathers") == TRUE:
        emit_collective(it, call, "state_dict")


def _between_two(name: str) -> CallModel:
    """Return the model of a function that sends to one rank, or receives from one."""

    def model(it: Interpreter, call: Call) -> Value:
        it.emit(call.event("exchange", None, name))
        return UNKNOWN

    return model


_COMPUTES = "a metric is computed"


def _compute(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """metric.compute() of torchmetrics, which gathers what each rank has counted."""
    if it.attr(owner, "alone") != TRUE and not it.notes.get(_COMPUTES):
        it.notes[_COMPUTES] = [call.place]  # a rule that asks what a condition is comes to this again
        emit_collective(it, call, "compute")
        it.notes[_COMPUTES] = []
    return UNKNOWN


CONSTRUCT: dict[str, ConstructorModel] = {
    "metric": lambda it, ref, _name, call: it.change(
        ref.id, alone=Const(call.get("sync_on_compute") == FALSE)
    )
}

CALLS: dict[str, CallModel] = {
    **{f"torch.distributed.{name}": _between_two(name) for name in ("send", "recv", "isend", "irecv")},
    **{f"{package}.{name}": model_call(name) for package in _LIKE_TORCH for name in _PLAIN},
    **{f"detectron2.utils.comm.{name}": model_call(name) for name in ("synchronize", "all_gather", "gather")},
    **{f"timm.utils.{name}": model_call(name) for name in ("reduce_tensor", "distribute_bn")},
    **{name: model_call(name.rsplit(".", 1)[-1]) for name in (*_SHARDED, "ray.train.report")},
    **{
        f"accelerate.utils.{name}": model_call(name)
        for name in (
            *("wait_for_everyone", "gather", "gather_object", "broadcast", "broadcast_object_list"),
            "reduce",
        )
    },
}

METHODS: dict[tuple[str, str], MethodModel] = {
    ("metric", "compute"): _compute,
    **{("metric", name): lambda _it, owner, _call: owner for name in ("to", "cuda")},
    ("optimizer", "consolidate_state_dict"): model_method("consolidate_state_dict"),
    **{
        (kind, "wait_for_everyone"): model_method("wait_for_everyone")
        for kind in ("accelerator", "trainer's accelerator", "partial state")
    },
    **{
        (kind, name): model_method(name)
        for kind in ("accelerator", "trainer's accelerator")
        for name in ("gather", "gather_for_metrics", "reduce", "pad_across_processes")
    },
    **{
        ("accelerator", name): model_method(name, of_shards=True)
        for name in ("save_state", "save_model", "get_state_dict")
    },
    **{
        ("fabric", name): model_method(name)
        for name in ("barrier", "all_gather", "all_reduce", "broadcast", "save")
    },
    ("accelerator", NO_SYNC): suspend_sync,
    ("fabric", "no_backward_sync"): suspend_sync,
}
