"""Rules R406 to R409: how a model is wrapped for several ranks."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import MAYBE, OF_SOME, RANK_0, UNCALLED
from preflight.script.interpreter.calls import MAY_HOLD, iterate_refs
from preflight.script.interpreter.events import THROUGH, Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.libraries.collectives import AROUND, OWNED, UNSYNCED
from preflight.script.libraries.pytorch import list_trained_models
from preflight.script.rules.inner_models import find_unwrapped
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.rank_rates import find_unlike_rates
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.rules.unused_code import group_calls_by_name
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Class, Dtype, Func, Map, Ref, Seq
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, as_text, is_by_rank, list_values


@rule(
    "R406", "process group", "ddp", "requires grad", "step", "scaler step", "unknown step", "schedule", "end"
)
def ranks_that_train_apart(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Ranks train apart: nothing exchanges their gradients, or their learning rates differ.

    A process group is made and a model trained, and no gradients go between the ranks: each then trains a
    model of its own on its part of the data; the one that is saved has seen 1/N of it. Nothing raises. Nor
    are gradients exchanged where training calls the model inside of the wrapper: DDP's hooks wait for its own
    forward(). Nor are those of a second model that is in no wrapper, nor where no_sync() is around every
    step, nor those of parameters that were frozen when they were wrapped: they have no hooks. Where rank 0
    alone steps the scheduler, or each rank gives ReduceLROnPlateau what it measured of its own part of the
    data, or a loop gives the wrapper's name to the model inside, the ranks train apart too.
    Source: torch.nn.parallel.DistributedDataParallel's documentation; reproduced on two gloo ranks.
    """
    if it.target.processes == 1 or UNCALLED in it.contexts:
        return
    yield from (*_trained_late(it, event), *find_unwrapped(it, event))
    if event.name in ("schedule", "end"):
        yield from find_unlike_rates(it, event)
    elif event.name == "process group":
        it.note("group of ranks", event.place)
    elif event.name in ("ddp", "requires grad"):
        it.note(_UNSEEN, *([] if event.ref else [event.place]))
    elif not (_is_of_a_learner(it) or _is_of_one_of_many(it, event) or _is_given(it)):
        it.note("steps of ranks", event.place)
        _note_apart(it, event)
    groups, steps, owned = map(it.notes.get, ("group of ranks", "steps of ranks", OWNED))
    around = [] if it.notes.get(THROUGH) else it.notes.get(UNSYNCED) or it.notes.get(AROUND)
    if event.name != "end" or not steps or not (groups or (owned and around)):
        return
    from preflight.script.rules.gradient_exchange import OF_DDP, OF_OWNERS, exchanges_gradients  # noqa: PLC0415 - few need it
    from preflight.script.rules.unread_wrappers import may_wrap_unread  # noqa: PLC0415 - few need it

    if around and not exchanges_gradients(it, steps, besides=OF_OWNERS if owned else OF_DDP):
        message = "training calls the model inside of DistributedDataParallel: no gradients are exchanged"
        fix = "call what DistributedDataParallel(...) returned, not its .module"
        if it.notes.get(UNSYNCED):
            message = "every step is under no_sync(): no gradients are exchanged"
            fix = "leave no_sync() out for the last batch before optimizer.step()"
        yield RuleHit(around[0], message, fix, Level.WARNING, (steps[0],))
    elif groups and not exchanges_gradients(it, steps) and not may_wrap_unread(it.sources):
        message = "ranks make a group, and nothing exchanges the gradients of this step between them"
        fix = "model = DistributedDataParallel(model, device_ids=[local_rank]) before training"
        yield RuleHit(steps[0], message, fix, Level.WARNING, (groups[0],))
    elif not it.notes.get(_UNSEEN) and (places := it.notes.get(_APART, [])):
        if (
            it.sources.mention(_FILLED)
            or exchanges_gradients(it, steps, besides=OF_DDP)
            or may_wrap_unread(it.sources)
        ):
            return
        for step, made in dict(zip(places[::2], places[1::2], strict=True)).items():
            message = "the model of this step is in no DistributedDataParallel, and another one is"
            fix = "wrap it too, or train both as parts of one module that is wrapped"
            yield RuleHit(step, message, fix, Level.WARNING, (made,))


def _is_of_a_learner(it: Interpreter) -> bool:
    """Whether one rank makes a step, and may send the others its weights."""
    return RANK_0 in it.contexts or (not OF_SOME.isdisjoint(it.contexts) and it.sources.mention(_SENDS))


def _is_of_one_of_many(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether a step is of a model that a rank makes in its part of a loop, as in a search of settings."""
    optimizers = list_values(event.values.get("optimizer", Ref(event.ref or 0)))
    models = [model.id for optimizer in optimizers for model in list_trained_models(it, optimizer)]
    own = (
        loop.newest for loop in it.loops if loop.by_rank or not OF_SOME.isdisjoint(it.contexts[loop.depth :])
    )
    return bool(models) and any(newest < min(models) for newest in own)


def _is_given(it: Interpreter) -> bool:
    """Whether a caller that is in no file gives the outermost function a model, which it may have wrapped."""
    outer = it.functions.get(it.stack[0]) if it.stack else None
    if outer is None or not isinstance(outer.node, ast.FunctionDef):
        return False
    name = outer.node.name
    if not any(_MODEL.fullmatch(each.arg) for each in outer.node.args.args):
        return False
    return name not in it.sources.parser.find_by_kind(group_calls_by_name, outer.source.tree)


@dataclass(frozen=True, slots=True)
class _Frozen:
    """Note of where a model is frozen, wrapped so, or trained after that."""

    model: int
    state: str


def _trained_late(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield where parameters are trained that were frozen when DistributedDataParallel wrapped them."""
    if event.name == "end":
        for key in [key for key in it.notes if isinstance(key, _Frozen) and key.state == "late"]:
            message = "these parameters were frozen when they were wrapped: their gradients are not exchanged"
            fix = "DistributedDataParallel(...) again after it, and an optimizer of what that returns"
            wrapped = tuple(it.notes.get(_Frozen(key.model, "wrapped"), ())[:1])
            yield from (RuleHit(at, message, fix, Level.WARNING, wrapped) for at in it.notes[key][:1])
    elif event.ref is None or event.name not in ("ddp", "requires grad"):
        return
    elif event.name == "ddp":
        for state in ("late", "wrapped"):
            it.notes.pop(_Frozen(event.ref, state), None)
        if it.notes.get(_Frozen(event.ref, "frozen")):
            it.note(_Frozen(event.ref, "wrapped"), event.place)
    elif any(_OF_NAMES.search(unparse(test)) for test in it.tests):
        return
    elif event.values["value"] == FALSE:
        it.note(_Frozen(event.ref, "frozen"), event.place)
        it.notes.pop(_Frozen(event.ref, "late"), None)
    elif event.values["value"] == TRUE:
        frozen = it.notes.pop(_Frozen(event.ref, "frozen"), None)
        if frozen and it.notes.get(_Frozen(event.ref, "wrapped")):
            it.note(_Frozen(event.ref, "late"), event.place)


_OF_NAMES = re.compile(r"\bname|\bin (?:n|k|key)\b|\b(?:n|k|key)\b|startswith|endswith")
"""What chooses parameters by their names: others than before, perhaps none."""


_MODEL = re.compile(r"(?:\w+_)?(?:model|net|network)")
_SENDS = re.compile(r"(?:broadcast|scatter)\w*\(")
_APART, _UNSEEN = "steps apart from the wrapper", "wraps what is not known"
_WEIGHS = re.compile(
    r"torch\.nn\.(?:Linear|Bilinear|Conv|Embedding|LSTM|GRU|RNN|Transformer|Multihead|\w*Norm|Sequential)"
    r"|torchvision\.models\."
)
"""Layers and networks that have weights, which a loss may not."""
_FILLED = re.compile(
    r"Module(?:Dict|List)\(\)|Sequential\(\)|(?:add|register)_module\(|_modules\[|setattr\((?:self|model|net)\b"
)
"""How a module gets parts that reading does not see in it."""


def _note_apart(it: Interpreter, event: ScriptEvent) -> None:
    """Note a step of a model in no wrapper, the same on all ranks, where another model is in one.

    None of one that lives for a turn of a loop: a probe, or a copy that adapts to a batch.
    """
    things = {number: thing for number, thing in it.state.heap.items() if thing.kind == "model"}
    wrapped = [number for number, thing in things.items() if TRUE in list_values(thing.get("wrapped"))]
    if not wrapped or not OF_SOME.isdisjoint(it.contexts):
        return
    inside = _held_by(it, wrapped)
    for optimizer in list_values(event.values.get("optimizer", Ref(event.ref or 0))):
        either = {ref.id for ref in list_trained_models(it, optimizer, "either")}
        known = inside | either if inside & either else inside
        for model in list_trained_models(it, optimizer):
            held = _held_by(it, [model.id])
            of_turn = any(max(wrapped) <= loop.newest < model.id for loop in it.loops)
            parts = [things[number] for number in held if number in things]
            weighs = any(_WEIGHS.match(as_text(part.get("__name__")) or "") for part in parts)
            weighs = weighs or any(_has_parameters(it, part) for part in parts)
            apart = weighs and known.isdisjoint(held) and not of_turn
            if apart and not any(_is_of_its_own(it, part) for part in parts):
                it.note(_APART, event.place, things[model.id].place)


def _has_parameters(it: Interpreter, part: HeapObject) -> bool:
    """Whether the constructor of a class of the script makes a parameter."""
    cls = part.get("__class__")
    made = (info.names.get("__init__") for info in (it.mro(cls.key) if isinstance(cls, Class) else ()))
    nodes = (it.functions[func.key].node for func in made if isinstance(func, Func))
    return any(get_last_name(part) == "Parameter" for node in nodes for part in walk(node))


def _held_by(it: Interpreter, models: list[int]) -> set[int]:
    """Return models and those that they hold, or may hold: `self.head = Head() if deep else None` too."""
    found, waiting = set(models), list(models)
    for number in waiting:  # which grows
        thing = it.thing(number)
        held = (value for value in thing.attrs.values() if type(value) in MAY_HOLD) if thing else ()
        for value in held:
            new = [ref.id for ref in iterate_refs(value) if ref.id not in found and it.kind(ref) == "model"]
            found.update(new)
            waiting += new
    return found


def _is_of_its_own(it: Interpreter, part: HeapObject) -> bool:
    """Whether a model may be another on each rank, or something that is not known may have wrapped it."""
    source = it.sources.get(part.place.path)
    made = source.lines[part.place.line - 1].partition(".to(")[0].partition(".cuda(")[0] if source else ""
    known = part.get("touched") != TRUE and part.get("sharded") != TRUE
    return not known or "rank" in made or any(map(is_by_rank, part.attrs.values()))


_REPLACES = re.compile(r"\[[\"']params[\"']\] *=|add_param_group")  # what gives an optimizer other parameters


@rule("R407", "sharded", "step", "scaler step")
def optimizer_made_before_sharding(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """An optimizer is made before FSDP shards the model that it steps.

    FSDP replaces the parameters by shards; the optimizer holds those of before, and steps what the model no
    longer uses. Nothing raises: the loss never falls. With use_orig_params=True FSDP keeps the parameters.
    Source: torch.distributed.fsdp's documentation; reproduced on two gloo ranks with torch 2.13.
    """
    if event.name == "sharded":
        if (
            event.call is None
            or event.call.open
            or as_bool(event.call.get("use_orig_params") or FALSE) is not False
        ):
            return
        for number, thing in list(it.state.heap.items()) if event.ref is not None else ():
            held = thing.get("models") if thing.kind == "optimizer" else NONE
            if isinstance(held, Seq) and Ref(event.ref or 0) in held.items:
                it.change(number, stale=Dtype("at", event.place))
        return
    chosen = event.values.get("optimizer", Ref(event.ref or 0))
    for item in list_values(chosen):
        optimizer = it.thing(item) if isinstance(item, Ref) else None
        stale = optimizer.get("stale") if optimizer is not None else NONE
        if optimizer is not None and isinstance(stale, Dtype) and stale.place is not None:
            if it.sources.mention(_REPLACES):
                return
            message = "this optimizer is made before FSDP shards its model, and steps parameters of before"
            fix = "make it after the model is wrapped: optimizer = AdamW(model.parameters())"
            yield RuleHit(optimizer.place, message, fix, Level.WARNING, (stale.place,))


@rule("R408", "ddp", "checkpoint", "arguments", "end")
def marked_ready_twice(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Reentrant gradient checkpointing in a model wrapped by DDP(find_unused_parameters=True).

    The first backward stops: "Expected to mark a variable ready only once". torch.utils.checkpoint and
    transformers before 5 take the reentrant form unless use_reentrant=False says otherwise.
    Source: torch.nn.parallel.DistributedDataParallel; reproduced with torch 2.13, where static_graph=True
    avoids it too.
    """
    if event.name == "ddp" and event.call is not None and _finds_unused(it, event.call):
        place = event.call.get_place("find_unused_parameters")
        it.note("finds unused", place)
        for model in filter(None, map(it.thing, list_parts(it, event.ref) if event.ref else ())):
            yield from _twice(it, place, model, "checkpointing")
    elif event.name == "ddp":
        it.note("finds none", event.place)
    elif event.name == "checkpoint" and event.call is not None and MAYBE not in it.contexts:
        given = event.call.get("use_reentrant") or (UNKNOWN if event.call.open else TRUE)
        if given == TRUE and "no_grad" not in it.contexts:
            it.note("reenters", event.call.get_place("use_reentrant"))
    elif event.name == "arguments":
        args = it.thing(event.ref)
        words = ("ddp_find_unused_parameters", "gradient_checkpointing")
        if args is not None and all(args.get(word) == TRUE for word in words):
            yield from _twice(it, event.place_of(words[0]), args, "gradient_checkpointing_kwargs")
    elif event.name == "end" and it.notes.get("finds unused") and not it.notes.get("finds none"):
        for place in dict.fromkeys(it.notes.get("reenters", ())):
            yield RuleHit(place, _TWICE, _ONCE, Level.WARNING, (it.notes["finds unused"][0],))


_TWICE = "reentrant checkpointing under find_unused_parameters=True marks parameters ready twice"
_ONCE = "use_reentrant=False"


def _finds_unused(it: Interpreter, call: Call) -> bool:
    finds = call.get("find_unused_parameters", 6) or FALSE
    static = as_bool(call.get("static_graph") or FALSE) is not False
    return as_bool(finds) is True and not (
        static or any("._set_static_graph(" in source.text for source in it.sources.files())
    )


def _twice(it: Interpreter, place: CodeLocation, holder: HeapObject, name: str) -> Iterator[RuleHit]:
    """Judge the checkpointing that a model or TrainingArguments turns on, by its keywords."""
    given = holder.get(name)
    spot = holder.get("checkpointing_at", NONE)
    if holder.kind == "model" and spot == NONE:
        return
    said = given.get("use_reentrant") if isinstance(given, Map) else None
    old = it.target.is_at_least("transformers", 5) is False
    if said == TRUE or (
        said is None and old and (given == NONE or (isinstance(given, Map) and not given.open))
    ):
        related = (spot.place,) if isinstance(spot, Dtype) and spot.place else ()
        fix = 'gradient_checkpointing_kwargs={"use_reentrant": False}'
        yield RuleHit(place, _TWICE, fix, Level.ERROR, related)


@rule("R409", "scaler step", "clip")
def own_shards_for_all(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A plain GradScaler, or torch's clip_grad_norm_, for a model that FullyShardedDataParallel shards.

    Each rank looks at its own shards only. A scaler that finds infinities leaves out the step that the others
    take, and halves its scale; clipping makes the shards smaller by a norm that is another on each rank, and
    smaller than that of all gradients. Nothing raises. bf16 needs no scaler at all, and with fully_shard
    (FSDP2) the plain scaler and clip_grad_norm_ ask all ranks.
    Source: torch.distributed.fsdp: sharded_grad_scaler, FullyShardedDataParallel.clip_grad_norm_; reproduced
    on two gloo ranks with torch 2.13.
    """
    if it.target.processes == 1:
        return
    if event.name == "clip":
        given = event.values.get("models", NONE)
        asked = any(_ASKS_WRAPPER.search(unparse(test)) for test in it.tests)
        clipped = given.items if isinstance(given, Seq) and event.call else ()
        sharded = all(isinstance(model, Ref) and it.attr(model, "gathers") == TRUE for model in clipped)
        if clipped and sharded and not asked and event.call and "norm" in get_last_name(event.call.node):
            message = "this clips by the norm of the rank's own shards only, another on each rank"
            fix = "clip_grad_norm_(...) of the FullyShardedDataParallel model itself"
            yield RuleHit(event.place, message, fix, Level.WARNING)
        return
    scaler = it.thing(event.ref)
    if scaler is None or as_bool(scaler.get("enabled")) is not True:
        return
    if scaler.get("of_all") == TRUE:
        return
    optimizers = list_values(event.values["optimizer"])
    models = (it.thing(model) for optimizer in optimizers for model in list_trained_models(it, optimizer))
    if any(model is not None and model.get("gathers") == TRUE for model in models):
        message = "this scaler looks for infinities in the rank's own shards only, and ranks part"
        fix = "ShardedGradScaler() of torch.distributed.fsdp.sharded_grad_scaler, or bf16 without a scaler"
        yield RuleHit(scaler.place, message, fix, Level.WARNING, (event.place,))


_ASKS_WRAPPER = re.compile(r"(?i)fsdp|shard|clip_grad")
