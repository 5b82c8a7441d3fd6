"""Rules P114 to P131 but P124: scaling, autocast, clipping, and who decides the precision."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import MAYBE
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.models import find_trained_dtype
from preflight.script.rules.autocast import is_in_validation
from preflight.script.rules.data_loaders import is_measuring_loop
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Const, Dtype, Ref
from preflight.script.values.constants import FALSE, NONE, TRUE
from preflight.script.values.operations import as_bool, as_text, list_values, place_of

_SCALES = (
    r"\.scale\([^\n]*\.backward\(|\.backward\([\w.]+\.scale\(|\bscale_loss\("
    r"|scaler\(\s*\w*loss\w*,\s*\w*optim"
)
"""A loss that is scaled; timm's scaler is called with the loss and its optimizer."""


_OF_SHARDS = "FSDP computes in float16 and the loss is not scaled: small gradients vanish"


@rule("P114", "autocast", "backward", "scaled", "sharding dtype")
def autocast_fp16_without_a_scaler(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Autocast to fp16 around a loss that is not scaled.

    Gradients below 6e-8 become zero. A GradScaler exists to prevent that; bf16 needs none. So it is where
    MixedPrecision(param_dtype=torch.float16) has FSDP compute in fp16, whose scaler is ShardedGradScaler.
    Source: torch.amp's documentation; torch/distributed/fsdp/sharded_grad_scaler.py.
    """
    if event.name == "sharding dtype":
        if event.values.get("dtype") == Dtype("float16") and it.target.capability is not None:
            it.note("sharded fp16", event.place)
        return
    shards = it.notes.get("sharded fp16", ())
    unscaled = event.name == "backward" and event.what == "raw" and not it.notes.get("scaler")
    if shards and unscaled and not re.search(_SCALES, it.source.text):
        fix = "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler, or bfloat16"
        yield from (RuleHit(at, _OF_SHARDS, fix, Level.WARNING) for at in shards)
    if event.name == "autocast":
        half = event.values.get("dtype") == Dtype("float16")
        on = event.values.get("enabled") == TRUE and event.what == "cuda" and it.target.capability is not None
        trains = "no_grad" not in it.contexts and not is_in_validation(it) and not _probes(it)
        if half and on and trains:
            it.note("autocast fp16", event.place)
        return
    if not it.notes.get("autocast fp16"):
        return
    scaler = it.thing(event.ref) if event.name == "scaled" else None
    if event.what != "raw" and (scaler is None or scaler.get("enabled") != FALSE or _trains_half(it)):
        return
    if it.notes.get("scaler") or it.notes.get("accelerator") or it.notes.get("sharded"):
        return
    if scaler is None and re.search(_SCALES, it.source.text):
        return  # this is the backward() of a run without autocast, or of another scaler's loss
    message = "the forward runs in float16 and the loss is not scaled: small gradients vanish"
    fix = "use torch.amp.GradScaler, or autocast(dtype=torch.bfloat16) where it is native"
    for place in it.notes["autocast fp16"]:
        yield RuleHit(place, message, fix, Level.WARNING)


def _probes(it: Interpreter) -> bool:
    """Whether a function drops the gradients that it makes and steps nothing: it asks how much fits."""
    return (
        is_measuring_loop(it)
        and it.function is not None
        and "zero_grad" in list_names(walk(it.function.node))
    )


def _trains_half(it: Interpreter) -> bool:
    """Whether an optimizer holds a model of float16: that its scaler is off is P108."""
    models = (thing for thing in it.state.heap.values() if thing.get("optimized") == TRUE)
    return any(find_trained_dtype(model) == Dtype("float16") for model in models if model.kind == "model")


@rule("P115", "accelerator", "scaler", "scaler step", "scaled twice", "scaled", "sharded")
def two_scalers(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The script has a GradScaler of its own, and accelerate's fp16 brings another.

    Gradients are scaled and unscaled twice: "unscale_() has already been called on this optimizer".
    Source: accelerate/accelerator.py.
    """
    if event.name == "sharded":
        it.note("sharded", event.place)
    elif event.name == "accelerator":
        it.note("accelerator", event.place)
        words = {as_text(item) for item in list_values(event.values.get("effective", NONE))}
        if words == {"fp16"}:
            it.note("accelerator fp16", event.place)
        elif not words <= {"no", "bf16", "fp8"}:
            it.note("accelerator maybe fp16", event.place)
    elif event.name == "scaler":
        if event.values.get("enabled") != FALSE:
            it.note("scaler", event.place)
    elif event.name == "scaled" and "training" in it.contexts:
        yield from _within_a_trainer(it, event)
    elif it.notes.get("accelerator fp16") or (
        event.name != "scaled" and it.notes.get("accelerator maybe fp16")
    ):
        sure = bool(it.notes.get("accelerator fp16"))
        scaler = it.thing(event.ref)
        if scaler is not None and as_bool(scaler.get("enabled")):
            message = "this scaler scales what accelerate's fp16 scales already"
            fix = "drop one of the two: accelerator.backward(loss) scales it already"
            if not sure:
                message = "this scaler scales what accelerate scales too, when it is launched with fp16"
            level = Level.ERROR if sure else Level.WARNING
            yield RuleHit(scaler.place, message, fix, level, (event.place,))


def _within_a_trainer(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A scaler of the script's own in a method that the Trainer calls while fp16=True has one already."""
    scaler = it.thing(event.ref)
    if scaler is None or not as_bool(scaler.get("enabled")) or Const("fp16") not in it.requested.values():
        return
    message = "this scaler scales what the Trainer's fp16 scales already"
    fix = "drop one of the two: fp16=True scales the loss already"
    yield RuleHit(scaler.place, message, fix, Level.ERROR, (event.place,))


@rule("P117", "evaluate", "train")
def full_half_evaluation_before_training(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """trainer.evaluate() with fp16_full_eval or bf16_full_eval runs before trainer.train().

    The Trainer casts the model for it and does not cast it back.
    Source: transformers/trainer.py, evaluation_loop.
    """
    trainer = it.thing(event.ref)
    if trainer is None or event.ref is None:
        return
    args = trainer.get("args")
    thing = it.thing(args) if isinstance(args, Ref) else None
    full = thing is not None and TRUE in (thing.get("fp16_full_eval"), thing.get("bf16_full_eval"))
    if event.name == "evaluate" and full and trainer.get("trained") == FALSE:
        it.change(event.ref, evaluated=Dtype("at", event.place))
    spot = it.attr(event.ref, "evaluated")
    if event.name == "train" and isinstance(spot, Dtype) and spot.place:
        message = "full half-precision evaluation casts the model, and the training after it uses it so"
        yield RuleHit(spot.place, message, "evaluate after training, or without *_full_eval", Level.WARNING)


@rule("P121", "bf16 asked")
def bf16_support_counts_emulation(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """is_bf16_supported() says True on GPUs that only emulate bf16.

    From torch 2.3 on it answers whether a bf16 tensor can be made, so Turing and Volta say True.
    Source: torch/cuda/__init__.py.
    """
    call = event.call
    if call is None or as_bool(call.get("including_emulation", 0) or TRUE) is False:
        return
    if it.target.is_at_least("torch", 2, 3) is False:
        return
    message = "this says True on GPUs that only emulate bf16"
    fix = "torch.cuda.is_bf16_supported(including_emulation=False), or get_device_capability() >= (8, 0)"
    yield RuleHit(event.place, message, fix, Level.WARNING)


@rule("P122", "accelerator")
def precision_fixed_in_code(_it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The mixed precision is a literal in the code, so no flag or configuration changes it.

    Source: accelerate/state.py: the argument wins over environment, flag and config file.
    """
    call = event.call
    literal = call is not None and any(
        word.arg == "mixed_precision" and isinstance(word.value, ast.Constant) and word.value.value
        for word in call.node.keywords
    )
    if literal and call is not None:
        value = as_text(event.values.get("requested"))
        message = f"mixed_precision={value!r} wins over --mixed_precision and the launch's config"
        yield RuleHit(
            call.get_place("mixed_precision"), message, "leave it out and let the launch decide", Level.INFO
        )


@rule("P123", "arguments")
def both_off_is_not_off(_it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """fp16=False together with bf16=False does not mean float32.

    The Trainer then takes what the launch says.
    Source: transformers/training_args.py.
    """
    call = event.call
    written = (
        {word.arg for word in call.node.keywords if isinstance(word.value, ast.Constant)} if call else set()
    )
    if call is None or not {"fp16", "bf16"} <= written:
        return
    if call.kwargs["fp16"] == FALSE and call.kwargs["bf16"] == FALSE:
        message = "both off: the launch's mixed precision applies"
        yield RuleHit(call.get_place("bf16"), message, "--precision no for float32", Level.INFO)


@rule("P127", "arguments")
def both_switches_on(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """fp16 and bf16 are both on.

    TrainingArguments refuses it: "At most one of fp16 and bf16 can be True, but not both".
    Source: transformers/training_args.py; reproduced with transformers 5.23.
    """
    thing = it.thing(event.ref)
    if thing is None or not as_bool(thing.get("fp16")) or not as_bool(thing.get("bf16")):
        return
    spots = [event.place_of(word) for word in ("bf16", "fp16")]
    yield RuleHit(
        spots[0],
        "fp16 and bf16 are both on",
        "keep one; or neither, and let the launch decide",
        Level.ERROR,
        (*spots[1:], event.place),
    )


@rule("P126", "arguments")
def fp16_wherever_there_is_a_gpu(_it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """fp16=torch.cuda.is_available() turns fp16 on even where bf16 is native.

    Source: field reports; see P101 for what it does to half-precision weights.
    """
    for word in event.call.node.keywords if event.call else ():
        if word.arg != "fp16" or isinstance(word.value, ast.Constant):
            continue
        if unparse(word.value).endswith("cuda.is_available()"):
            message = "fp16 is on wherever there is a GPU, also where bf16 is native"
            yield RuleHit(
                event.place_of(word.arg), message, "let the launch decide: leave it out", Level.INFO
            )


@rule("P130", "load", "attention")
def flash_attention_on_old_gpus(_it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """flash_attention_2 on GPUs before Ampere.

    "FlashAttention only supports Ampere GPUs or newer."
    Source: flash-attn's own check.
    """
    call = event.call
    if call is None:
        return
    for keyword in ("attn_implementation", "_attn_implementation", "use_flash_attention_2"):
        value = call.get(keyword)
        if as_text(value) != "flash_attention_2" and (keyword[:3] != "use" or value != TRUE):
            continue
        written = place_of(value)
        message = "flash_attention_2 needs compute capability 8.0 or newer"
        fix = 'attn_implementation="sdpa"'
        yield RuleHit(call.get_place(keyword), message, fix, Level.ERROR, (written,) if written else ())


@rule("P131", "accelerator", "lightning", "arguments", "argument set", "load", "autocast", "sharding dtype")
def bf16_on_gpus_that_emulate_it(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """bf16 is fixed in the script, and these GPUs only emulate it.

    It runs slowly, and fails in kernels that have no bf16 form. accelerate and transformers do not refuse it.
    Source: torch.cuda.is_bf16_supported counts emulation since torch 2.3.
    """
    hit = _fixed_bf16(it, event)
    if hit is None:
        return
    chosen = any(_OF_CHOICE.search(unparse(test)) for test in it.tests)
    if chosen or MAYBE in it.contexts:
        level = Level.WARNING if hit.level is Level.ERROR and not chosen else Level.INFO
        message = "where this branch is taken the script names bf16, and these GPUs only emulate it"
        hit = replace(hit, message=message, level=level)
    yield hit


_OF_CHOICE = re.compile(r"b?f(?:loat)?16|half|amp\b|precision|dtype", re.IGNORECASE)
"""Of a condition that is not known and asks for a precision: who sets it has chosen bf16."""


def _fixed_bf16(it: Interpreter, event: ScriptEvent) -> RuleHit | None:
    if event.name in ("load", "autocast", "sharding dtype"):
        return _named_bf16(event)
    thing = it.thing(event.ref)
    if thing is None:
        return None
    if event.name == "argument set":
        if event.what != "bf16" or not as_bool(event.values.get("value", NONE)):
            return None
        message = "the script turns bf16 on, and these GPUs only emulate it"
        return RuleHit(event.place, message, "let the launch decide, or fp16 on these GPUs", Level.ERROR)
    if thing.get("requested") != Const("bf16") or TRUE in (thing.get("cpu"), thing.get("use_cpu")):
        return None
    if thing.get("trl") == TRUE and thing.get("bf16") == NONE:
        return None  # P109
    keyword = {"accelerator": "mixed_precision", "lightning": "precision"}.get(event.name, "bf16")
    message = "the script requests bf16, and these GPUs only emulate it"
    given = {"accelerator": thing.get("requested"), "lightning": event.values.get("given")}
    value = given.get(event.name, thing.get("bf16"))
    written = place_of(value)
    related = (written,) if written else ()
    option = it.options.places.get(written) if written and as_text(value) else None
    fix = f"{option} fp16" if option else "let the launch decide, or fp16 on these GPUs"
    return RuleHit(event.place_of(keyword), message, fix, Level.ERROR, related)


def _named_bf16(event: ScriptEvent) -> RuleHit | None:
    """A model loaded, sharded or in autocast in bf16, whatever the GPU."""
    dtype = event.values.get("dtype")
    if not isinstance(dtype, Dtype) or dtype.name != "bfloat16" or event.values.get("enabled") == FALSE:
        return None
    if event.name == "autocast" and event.what != "cuda":
        return None
    message = "the script names bf16, and these GPUs only emulate it"
    return RuleHit(
        dtype.place or event.place, message, "float32 weights and fp16 on these GPUs", Level.WARNING
    )
