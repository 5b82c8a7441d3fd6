"""Rules P101 to P112 without P110: parameters of one dtype trained in a precision that cannot take it."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.branch_conditions import UNCALLED
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.training_step import TrainingStep, list_trainings
from preflight.script.library_names import ADAM_LIKE
from preflight.script.rules.certainty import list_flags
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Const, Dtype
from preflight.script.values.constants import FALSE, NONE, TRUE
from preflight.script.values.operations import as_bool, as_text, list_values

_STEPS = ("train", "scaler step", "step")
_SAFE_EPS = 1e-6
_UNSCALES = re.compile(r"\s*(?:[\w.]+\._unscale_grads_ = |def _unscale_grads_\(|setattr\()")
_AT_LOAD = "dtype=torch.float32 (torch_dtype= before transformers 4.56)"
_FLOAT32 = (
    "load with dtype=torch.float32 and keep the mixed precision; too big: PEFT, whose adapters stay float32"
)


def _level(training: TrainingStep, *, sure: bool = True) -> Level:
    doubtful = training.doubtful or training.undecided
    return Level.ERROR if sure and training.sure_dtype() and not doubtful else Level.WARNING


def _if_trained(training: TrainingStep) -> str:
    return ", if this model is the one that is trained" if training.undecided else ""


def _place(dtype: Dtype, training: TrainingStep) -> CodeLocation:
    return dtype.place or training.model.place


@rule("P101", *_STEPS)
def fp16_parameters_under_a_scaler(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Trained parameters are fp16 while fp16 mixed precision is on.

    fp16 mixed precision keeps float32 parameters and scales their gradients; with fp16 parameters torch's
    GradScaler stops at the first step with "Attempting to unscale FP16 gradients". No flag repairs that.
    DeepSpeed and FSDP keep float32 masters of their own and are not meant; PEFT adapters are float32.
    Source: torch/amp/grad_scaler.py; reproduced with torch 2.13 and transformers 5.23.
    """
    for training in list_trainings(it, event):
        dtype = training.maybe_dtype("float16")
        if dtype is None or not training.may_scale() or training.sharded or _unscales_fp16(it):
            continue
        if training.model.get("adapters") != NONE:
            continue
        sure = training.precisions() == {"fp16"}
        message = "the trained parameters are float16, and fp16 mixed precision is on"
        if not training.precisions():
            message += ", unless the script's arguments (--args) say otherwise"
        yield _beside_scaler(it, training, dtype, message, _FLOAT32, sure=sure)


def _unscales_fp16(it: Interpreter) -> bool:
    """Whether a script has taken the scaler's refusal of fp16 gradients away, as kohya's scripts do."""
    lines = (line for source in it.sources.files() for line in source.lines if "_unscale_grads_" in line)
    return any(map(_UNSCALES.match, lines))


def _beside_scaler(
    it: "Interpreter", training: TrainingStep, dtype: Dtype, message: str, fix: str, *, sure: bool
) -> RuleHit:
    """Return the finding: a note where one switch casts the weights and another makes the scaler."""
    message += _if_trained(training)
    level = _level(training, sure=sure)
    cast, scaled = list_flags(it, dtype.place), list_flags(it, next(iter(training.switched_at()), None))
    if level is Level.WARNING and cast - scaled and scaled - cast:
        level, message = Level.INFO, f"{message}, where both branches are taken"
    return RuleHit(_place(dtype, training), message, fix, level, training.switched_at())


@rule("P102", *_STEPS)
def pure_fp16_training(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Trained parameters are fp16 without a scaler.

    In pure fp16, (1 - beta2) g^2 and eps = 1e-8 both round to zero, so Adam's first update is x/0: the
    weights are NaN after one step, whatever the learning rate or clipping; the loss may be logged as 0.0. A
    larger eps and fused kernels avoid the NaN and still lose small updates.
    Source: reproduced with torch 2.13.
    """
    for training in list_trainings(it, event):
        dtype = training.maybe_dtype("float16")
        if dtype is None or training.has_masters or training.precisions() == {"fp16"}:
            continue
        if training.by != "torch" and training.may_scale():
            continue
        if not training.precisions() and training.sure_dtype() is None:
            continue
        optimizer, message = training.optimizer, "the trained parameters are float16 and there is no scaler"
        if _is_off(training):
            message = "the trained parameters are float16 and the scaler is off"
        level = _level(training, sure=_divides_by_zero(it, training))
        if not training.precisions():
            message = "the trained parameters are float16, which fits no mixed precision; --precision decides"
            if level is Level.ERROR:
                message = (
                    "a scaler refuses trained parameters of float16, and without one Adam makes them NaN"
                )
        if optimizer is not None and as_text(optimizer.get("cls")) not in ADAM_LIKE:
            message += ": small updates are lost"
        related = (optimizer.place,) if optimizer is not None else ()
        message += _if_trained(training)
        yield RuleHit(_place(dtype, training), message, _fix_of_pure_fp16(training), level, related)


def _fix_of_pure_fp16(training: TrainingStep) -> str:
    """Return what makes it mixed precision: a flag of the launch, Lightning's own, or the script's loop."""
    if training.by == "torch":
        return "keep the weights in float32, with torch.autocast and a GradScaler; or bf16 where it is native"
    who = training.owner.get("who") if training.owner else NONE
    return f"{_FLOAT32} (with --precision fp16)" if who == NONE else 'precision="16-mixed"'


def _is_off(training: TrainingStep) -> bool:
    """Return whether the script switches its scaler off; P108 says at that line that this hides the fault."""
    return training.scaler is not None and training.scaler.get("enabled") == FALSE


def _divides_by_zero(it: Interpreter, training: TrainingStep) -> bool:
    optimizer = training.optimizer
    if optimizer is None:
        return _trainers_adam_does(it, training)
    if optimizer.get("library") != Const("torch") or as_text(optimizer.get("cls")) not in ADAM_LIKE:
        return False
    eps = optimizer.get("eps")
    if isinstance(eps, Const) and isinstance(eps.value, (int, float)) and eps.value >= _SAFE_EPS:
        return False
    return as_bool(optimizer.get("fused")) is False


def _trainers_adam_does(it: Interpreter, training: TrainingStep) -> bool:
    """Return whether the AdamW that a Trainer makes does; from torch 2.8 on its default is the fused one."""
    arguments = training.arguments
    if arguments is None or arguments.get("open") == TRUE or arguments.get("adam_epsilon") != NONE:
        return False
    named = arguments.get("optim")
    if named == NONE:
        return it.target.is_at_least("torch", 2, 8) is False
    return as_text(named) == "adamw_torch"


@rule("P103", *_STEPS)
def dtype_left_to_the_checkpoint(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The checkpoint's config.json decides the dtype, and fp16 mixed precision is on.

    transformers 5 loads "auto": in whatever dtype the checkpoint was saved. Most are saved in bf16 or fp16,
    which the fp16 scaler refuses.
    Source: transformers/modeling_utils.py, _get_dtype.
    """
    for training in list_trainings(it, event):
        dtype = training.maybe_dtype("checkpoint")
        if dtype is None or training.precisions() != {"fp16"} or training.sharded:
            continue
        message = "no dtype is named, so the checkpoint decides it, and fp16 mixed precision needs float32"
        spots = training.switched_at()
        yield RuleHit(_place(dtype, training), message, _AT_LOAD, Level.WARNING, spots)


@rule("P104", *_STEPS)
def trained_beside_the_adapters(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """modules_to_save or bias of a LoRA configuration are trained in the half base's dtype.

    PEFT makes its adapters float32 and leaves these as they are, so the fp16 scaler refuses them.
    Source: peft/tuners/tuners_utils.py, cast_adapter_dtype; reproduced with peft 0.21.
    """
    for training in list_trainings(it, event):
        base = training.model.get("dtype")
        half = isinstance(base, Dtype) and base.name in ("float16", "bfloat16")
        if training.model.get("half_extra") != TRUE or not half or training.precisions() != {"fp16"}:
            continue
        if training.sharded or not isinstance(base, Dtype):
            continue
        message = f"modules_to_save or bias are trained in the base's {base.name}, and fp16 is on"
        fix = "cast the trainable parameters to float32 after get_peft_model"
        spot = training.model.get("half_extra_at", NONE)
        related = (
            *((spot.place,) if isinstance(spot, Dtype) and spot.place else ()),
            *training.switched_at(),
        )
        message += _if_trained(training)
        yield RuleHit(base.place or training.model.place, message, fix, _level(training), related)


@rule("P133", *_STEPS)
def adapters_through_a_float16_base(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Adapters are trained through a float16 base in fp16, on GPUs with native bf16.

    float16 ends at 65504. A base that was trained in bf16 (Gemma, Qwen, T5) can exceed it in a forward: the
    loss is then logged as 0.0 and the gradient norm as nan, the scaler leaves out every step, and the run
    ends without having learned anything. A rehearsal proves that gradients are finite. Models that
    were trained in fp16 are left out (OPT, Pythia, Whisper, most of diffusers).
    Source: torch/amp/grad_scaler.py on models that were trained in bf16; field reports.
    """
    for training in list_trainings(it, event):
        base, trained = training.model.get("dtype"), training.sure_dtype()
        if not isinstance(base, Dtype) or base.name != "float16" or training.sharded:
            continue
        if training.model.get("half_extra") == TRUE or training.precisions() != {"fp16"}:
            continue  # P104
        if training.model.get("fits_float16") == TRUE or trained is None or trained.name != "float32":
            continue
        message = "adapters are trained through a float16 base in fp16: where it overflows, gradients are NaN"
        fix = "load with dtype=torch.float32, or bf16 where every GPU has it; gpulaunch rehearse proves it"
        yield RuleHit(_place(base, training), message, fix, Level.WARNING, training.switched_at())


@rule("P105", *_STEPS)
def half_adapters_under_a_scaler(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """PEFT adapters were made or cast to fp16 while fp16 mixed precision is on.

    `autocast_adapter_dtype=False`, or .half() or .to(dtype) after get_peft_model, undoes PEFT's own float32.
    Source: peft/mapping_func.py; reproduced with peft 0.21.
    """
    for training in list_trainings(it, event):
        dtype = training.maybe_dtype("float16")
        if dtype is None or training.model.get("adapters") == NONE or training.sharded:
            continue  # of one optimizer's models, the others may have adapters
        if "fp16" not in training.precisions() or _unscales_fp16(it):
            return
        message = "the adapters are float16, and fp16 mixed precision is on"
        fix = "remove the cast (or autocast_adapter_dtype=False): PEFT keeps adapters in float32"
        message += _if_trained(training)
        yield RuleHit(_place(dtype, training), message, fix, _level(training), training.switched_at())


@rule("P106", *_STEPS)
def bf16_parameters_under_a_scaler(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Trained parameters are bf16 while fp16 mixed precision is on.

    The scaler's kernel has no bf16 form on CUDA: "_amp_foreach_non_finite_check_and_unscale_cuda" not
    implemented for 'BFloat16'. bf16 needs no scaler at all.
    Source: torch issue 127176 and others.
    """
    for training in list_trainings(it, event):
        dtype = training.maybe_dtype("bfloat16")
        if dtype is None or "fp16" not in training.precisions() or training.sharded:
            continue
        if training.model.get("forced") == TRUE:
            continue
        sure = training.precisions() == {"fp16"} and it.target.capability is not None
        message = "the trained parameters are bfloat16, and fp16 mixed precision is on"
        fix = "use bf16 (native from compute capability 8.0), or load with dtype=torch.float32"
        yield _beside_scaler(it, training, dtype, message, fix, sure=sure)


@rule("P107", "train")
def trl_casts_adapters_of_a_quantized_base(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A TRL trainer with a quantized base casts the adapters to bf16, and fp16=True is set.

    TRL does so whatever fp16 says, and the fp16 scaler refuses bf16 parameters.
    Source: trl/trainer/sft_trainer.py.
    """
    for training in list_trainings(it, event):
        if training.model.get("forced") != TRUE or training.precisions() != {"fp16"}:
            continue
        message = "TRL casts the adapters of a quantized base to bfloat16, and fp16=True is set"
        fix = "bf16=True, fp16=False; without bf16 on the GPUs cast what trains to float32 behind the trainer"
        place = next(iter(training.switched_at()), training.model.place)
        yield RuleHit(place, message, fix, Level.ERROR, (training.model.place,))


@rule("P108", "scaler step")
def scaler_switched_off_for_fp16(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The GradScaler is switched off although the parameters are fp16.

    It silences "Attempting to unscale FP16 gradients" and trains to NaN instead: see P102.
    Source: reproduced with torch 2.13.
    """
    for training in list_trainings(it, event):
        dtype = training.maybe_dtype("float16")
        if dtype is None or not _is_off(training) or training.scaler is None:
            continue
        if it.target.capability is None:
            continue
        message = "the scaler is off because the parameters are float16: the error is hidden, not the fault"
        message += _if_trained(training)
        fix = "keep the scaler on and the weights in float32; too big: PEFT, whose adapters stay float32"
        yield RuleHit(training.scaler.place, message, fix, _level(training), (_place(dtype, training),))


@rule("P109", "arguments")
def trl_default_is_bf16(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A TRL configuration without bf16= means bf16, on GPUs that only emulate it.

    TRL sets bf16 = not fp16 where bf16 is not given.
    Source: trl/trainer/base_config.py.
    """
    thing = it.thing(event.ref)
    if thing is None or thing.get("trl") != TRUE or thing.get("bf16") != NONE:
        return
    if thing.get("requested") == Const("bf16"):
        message = "without bf16= TRL turns bf16 on, which these GPUs only emulate"
        fix = "--bf16 False --fp16 True" if thing.get("parsed") == TRUE else "bf16=False, fp16=True"
        yield RuleHit(event.place, message, fix, Level.WARNING)


@rule("P132", "arguments")
def bf16_on_the_cpu(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """TrainingArguments(bf16=True) on CPU ranks, without use_cpu.

    transformers then looks for a GPU and stops: "Your setup doesn't support bf16/gpu. You need to assign
    use_cpu if you want to train the model on CPU."
    Source: transformers/training_args.py; seen with transformers 5.23.
    """
    thing = it.thing(event.ref)
    if thing is None or it.target.capability is not None or thing.get("requested") != Const("bf16"):
        return
    if any(as_bool(thing.get(name)) is not False for name in ("use_cpu", "no_cuda")):
        return
    by_default = thing.get("bf16") == NONE
    message = "bf16 without use_cpu stops at once on a host without a GPU"
    level = Level.WARNING if by_default else Level.ERROR
    yield RuleHit(event.place_of("bf16"), message, "use_cpu=True on the CPU, or GPUs for this launch", level)


@rule("P111", *_STEPS, "trained")
def model_cast_between_steps(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The model is cast between two steps of its optimizer.

    The optimizer's state keeps the old dtype, so the next step fails: "expected dtype float for `end` but got
    dtype c10::BFloat16" (torch 2.1 and later; older ones and SGD continue silently). Usually in an
    evaluation, demo or save that restores `next(model.parameters()).dtype` to the whole model.
    Source: reproduced with torch 2.13.
    """
    for training in list_trainings(it, event):
        for item in list_values(training.model.get("recast", FALSE)):
            if not isinstance(item, Dtype) or as_text(training.model.get("role")) == "copy":
                continue
            own = item.name == "own" and training.model.get("mixed", NONE) == NONE
            if own and isinstance(training.model.get("optimized_dtype", NONE), Dtype):
                continue
            level = Level.WARNING if own or training.doubtful else Level.ERROR
            message = "the trained model is cast while its optimizer's state keeps the old dtype"
            fix = "cast copy.deepcopy(model) instead, or record and restore the dtype of each parameter"
            yield RuleHit(item.place or training.model.place, message, fix, level)
        for rounded in list_values(training.model.get("rounded", NONE)):
            if not isinstance(rounded, Dtype) or training.model.get("recast", FALSE) != FALSE:
                continue
            message = "the model under training is rounded to half precision and cast back"
            fix = "cast copy.deepcopy(model) instead, or use autocast"
            yield RuleHit(rounded.place or training.model.place, message, fix, Level.WARNING)


@rule("P112", "parameter data", "end")
def parameter_data_replaced(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A parameter's or gradient's data is cast behind the optimizer's back.

    Gradient and optimizer state then differ in dtype. Before the optimizer is made it is harmless, and so is
    a script that casts to float32 for each step and back after it, as fine-tuning of CLIP does.
    Source: reproduced with torch 2.13.
    """
    if event.name == "end":
        for level in (Level.WARNING, Level.ERROR) if not it.notes.get("steps in float32") else ():
            for place in it.notes.get(("data cast", level), ()):
                message = "a trained parameter is cast through .data or .grad after the optimizer was made"
                yield RuleHit(
                    place, message, "cast before the optimizer is made, or keep float32 masters", level
                )
        return
    thing = it.thing(event.ref)
    if thing is None or thing.get("optimized") != TRUE or as_text(thing.get("role")) == "copy":
        return
    dtype = event.values.get("dtype")
    if (
        event.what == "parameter.data"
        and isinstance(dtype, Dtype)
        and dtype == thing.get("optimized_dtype", NONE)
    ):
        return
    if dtype in (Dtype("float32"), Const("float32")):
        it.note("steps in float32", event.place)
    if event.what in ("parameter.data", "grad.data", "parameter.grad", "parameter.grad_dtype"):
        sure = thing.get("stepped", FALSE) != FALSE and UNCALLED not in it.contexts
        # Reported at the end: float32 may come back for a step.
        level = Level.ERROR if sure else Level.WARNING
        it.note(("data cast", level), event.place)
