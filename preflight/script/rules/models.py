"""Rules P110, P113 and P125: parts and averages of another dtype, and inputs that need no gradient."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.pytorch import PLAIN_PARAMETER
from preflight.script.libraries.training_step import list_trainings
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Const, Dtype, Map, Ref, Value
from preflight.script.values.constants import FALSE, NONE, TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, place_of

_FIX = 'gradient_checkpointing_kwargs={"use_reentrant": False}, or model.enable_input_require_grads()'


@rule("P113", "average")
def average_of_another_dtype(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A moving average and the model it follows have different dtypes.

    lerp_ needs both of one dtype ("expected dtype float for `end` but got dtype c10::Half"), and an average
    that is kept in half precision loses updates smaller than its last bit, with mul_ and add_ too.
    Source: reproduced with torch 2.13.
    """
    one, other = (it.attr(event.values.get(name), "dtype") for name in ("average", "model"))
    if isinstance(one, Dtype) and isinstance(other, Dtype) and one != other:
        if event.what == "add_" and one.name == "float32":
            return  # add_ casts what it gets
        message = f"the average is {one.name} and the model {other.name}"
        related = (one.place,) if one.place else ()
        fix = "keep the average in the dtype of the parameters, best float32; cast a copy to save it"
        yield RuleHit(event.place, message, fix, Level.WARNING, related)


@rule("P125", "train", "step", "scaler step", "checkpoint")
def adapters_behind_reentrant_checkpoints(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Gradient checkpointing in its reentrant form over inputs that need no gradient.

    Nothing inside such a block trains: "None of the inputs have requires_grad=True". It happens with adapters
    in a frozen base: the embeddings before the first block need no gradient. transformers before 5 and
    torch.utils.checkpoint use the reentrant form by default.
    Source: torch.utils.checkpoint; transformers/modeling_utils.py.
    """
    if event.name == "checkpoint":
        yield from _by_hand(it, event)
        return
    old = it.target.is_at_least("transformers", 5) is False
    for training in list_trainings(it, event):
        model = training.model
        if model.get("peft") != TRUE or model.get("inputs_require_grad", NONE) == TRUE:
            continue
        for place, options in _checkpointing_options(it.thing(it.attr(event.ref, "args")), model):
            explicit = options.get("use_reentrant") if isinstance(options, Map) else None
            if explicit == TRUE or (explicit is None and options == NONE and old):
                message = "gradient checkpointing over a frozen base: the adapters inside get no gradient"
                spot = place_of(explicit)
                yield RuleHit(place, message, _FIX, Level.WARNING, (spot,) if spot else ())


def _checkpointing_options(
    args: HeapObject | None, model: HeapObject
) -> Iterator[tuple[CodeLocation, Value]]:
    """Yield where checkpointing is turned on for a training, and its keywords."""
    if args is not None and args.get("gradient_checkpointing") == TRUE:
        yield args.place, args.get("gradient_checkpointing_kwargs")
    spot = model.get("checkpointing_at", NONE)
    if isinstance(spot, Dtype) and spot.place is not None:
        yield spot.place, model.get("checkpointing")


def _by_hand(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True) of a block that is frozen."""
    block, call = event.values.get("block"), event.call
    thing = it.thing(block) if isinstance(block, Ref) else None
    reentrant = call.get("use_reentrant") if call else None
    if thing is None or call is None or reentrant == FALSE:
        return
    if thing.get("__frozen__", FALSE) != TRUE and thing.get("trainable") != Const("none"):
        return
    if reentrant is None and it.target.is_at_least("torch", 2, 9):
        return
    message = "the checkpointed block is frozen and its inputs may need no gradient: nothing before it trains"
    yield RuleHit(call.get_place("use_reentrant"), message, "use_reentrant=False", Level.WARNING)


@rule("P110", "train", "scaler step", "step")
def layers_of_another_dtype(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Some layers of a trained model are built in half precision, the rest is not.

    Mixed parameters break the scaler (fp16) and, once something casts the whole model, the optimizer.
    Source: the cause of rubin-labs/dia-finetuning-stereo's crash (embeddings built in bf16).
    """
    for training in list_trainings(it, event):
        dtype = training.model.get("mixed", NONE)
        if isinstance(dtype, Dtype) and not training.sharded and _has_other_part(it):
            message = f"this layer is built in {dtype.name} within a model that is trained otherwise"
            fix = "build it in float32 and cast activations in forward, or let autocast do it"
            level = Level.INFO if training.precisions() == {"bf16"} else Level.WARNING
            yield RuleHit(dtype.place or training.model.place, message, fix, level)


def _has_other_part(it: Interpreter) -> bool:
    """Whether a layer or parameter is known to be float32; the others may be of a dtype that is not known."""
    made = (thing for thing in it.state.heap.values() if thing.kind == "model")
    named = (thing for thing in made if _OF_WEIGHTS.match(as_text(thing.get("__name__")) or ""))
    plain = (thing.get("dtype") for thing in named if thing.get("empty") != TRUE)
    return bool(it.notes.get(PLAIN_PARAMETER)) or Dtype("float32") in plain


_OF_WEIGHTS = re.compile(r"torch\.nn\.(?!(?:Module|ModuleList|ModuleDict|Sequential)$)")
