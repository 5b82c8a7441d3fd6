"""Moments of training: which model, in which precision, with which optimizer, and how sure that is."""

from collections.abc import Iterator, Sequence
from dataclasses import field

from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.events import OWN_STEP, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries import hf_arguments
from preflight.script.libraries.casts import list_trained_with
from preflight.script.libraries.models import find_trained_dtype
from preflight.script.libraries.pytorch import list_trained_models
from preflight.script.values import Const, Dtype, Ref, Seq, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, as_text, list_values


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One optimizer step on one model."""

    model: HeapObject
    dtype: Value  # of what is trained
    precision: Value  # Const "no", "fp16", ...; Unknown when it is not known
    by: str  # "trainer", "accelerate", "torch"
    sharded: bool  # DeepSpeed or FSDP parts the weights
    optimizer: HeapObject | None
    scaler: HeapObject | None = None
    switch: Value = NONE  # a Dtype whose place is where the precision is requested
    arguments: HeapObject | None = None  # a Trainer's, where they are known and name its optimizer
    owner: HeapObject | None = None  # the Accelerator, Fabric or Lightning Trainer
    undecided: bool = False  # another model, of another dtype, may be trained in its place
    _possible: tuple[Dtype, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.dtype) is Dtype and self.model.get("recast", FALSE) == FALSE:  # most
            object.__setattr__(self, "_possible", (self.dtype,))
            return
        options = list_values(self.dtype)
        known = all(isinstance(item, Dtype) or item == NONE for item in options)
        recast = any(isinstance(item, Dtype) for item in list_values(self.model.get("recast", FALSE)))
        masters = len(options) > 1 and self.optimizer is not None and self.optimizer.get("masters") == TRUE
        judged = known and not recast and not masters  # who casts the model steps float32 copies
        possible = tuple(item for item in options if isinstance(item, Dtype)) if judged else ()
        object.__setattr__(self, "_possible", possible)

    def switched_at(self) -> tuple[CodeLocation, ...]:
        """Return where the precision is requested, nothing where the launch gives it."""
        if self.scaler is not None:
            return (self.scaler.place,)
        return (self.switch.place,) if isinstance(self.switch, Dtype) and self.switch.place else ()

    def sure_dtype(self) -> Dtype | None:
        """Return the dtype when there is no doubt, else None."""
        return self.dtype if isinstance(self.dtype, Dtype) else None

    def maybe_dtype(self, name: str) -> Dtype | None:
        """Return the dtype of that name when it is possible and everything else that is possible is known.

        None also when it came from a cast between two steps: that is a fault of its own (P111).
        """
        return next((item for item in self._possible if item.name == name), None)

    def precisions(self) -> set[str]:
        """Return the mixed precisions that are possible; empty when unknown."""
        words = [as_text(item) for item in list_values(self.precision)]
        return {word for word in words if word} if all(words) else set()

    def may_scale(self) -> bool:
        """Whether fp16 mixed precision is one of the possibilities that are known."""
        return Const("fp16") in list_values(self.precision)

    @property
    def has_masters(self) -> bool:
        """Whether float32 copies are stepped; torch's own FSDP steps shards in the dtype they were given."""
        of_torch = self.by == "torch" and self.model.get("forward_of_all") != NONE
        own = self.optimizer is not None and self.optimizer.get("master_weights") == TRUE  # apex's
        return own or (self.sharded and not of_torch)

    @property
    def doubtful(self) -> bool:
        """Whether code that could not be read has had the model."""
        return self.model.get("touched") == TRUE


def list_trainings(it: Interpreter, event: ScriptEvent) -> tuple[TrainingStep, ...]:
    """Return what an event trains; several rules ask that of one event."""
    if it.judged[0] is not event:
        it.judged = event, tuple(_trainings(it, event))
    return it.judged[1]


def _trainings(it: Interpreter, event: ScriptEvent) -> Iterator[TrainingStep]:
    thing = it.thing(event.ref)
    if thing is None:
        return
    if event.name in ("train", "trained"):
        yield from _by_trainer(it, thing)
    elif event.name == "scaler step":
        optimizer = event.values.get("optimizer", UNKNOWN)
        enabled = as_bool(thing.get("enabled"))
        precision: Value = UNKNOWN if enabled is None else Const("fp16" if enabled else "no")
        yield from _by_optimizer(it, optimizer, precision, "torch", scaler=thing)
    elif event.name == "step" and event.what != OWN_STEP:
        accelerator = it.thing(_ref(thing.get("accelerator")))
        if accelerator is not None:
            precision, by = accelerator.get("mixed_precision"), "accelerate"
        else:
            precision, by = Const("no"), "torch"
        yield from _by_optimizer(it, Ref(event.ref or 0), precision, by)


def _wrapped(it: Interpreter) -> list[HeapObject]:
    """Return what an optimizer steps whose parameters cannot be read: the model in DistributedDataParallel.

    That refuses a model without gradients. Of several it is not known which, and of one it is doubtful.
    """
    found = [
        thing for thing in it.state.heap.values() if thing.kind == "model" and thing.get("wrapped") == TRUE
    ]
    return [found[0].with_changes(touched=TRUE)] if len(found) == 1 else []


def _ref(value: Value) -> Value:
    """Return the object that a value is, or may be."""
    if type(value) is Const:
        return UNKNOWN
    return next((item for item in list_values(value) if isinstance(item, Ref)), UNKNOWN)


def _by_trainer(it: Interpreter, trainer: HeapObject) -> Iterator[TrainingStep]:
    args = trainer.get("args")
    precision = hf_arguments.find_mixed_precision(it, args)
    sharded = hf_arguments.is_sharded(it, args)
    held = [item.id for item in list_values(trainer.get("model")) if isinstance(item, Ref)]
    undecided = len(held) > 1 and _differ(it, held)
    for identity in [inner for outer in held for inner in list_trained_with(it, outer)]:
        model = it.thing(identity)
        if model is not None and model.kind == "model":
            dtype = find_trained_dtype(model)
            settings = it.thing(_ref(args))
            switch = settings.get("requested_at") if settings else NONE
            own = trainer.get("optimizers")
            given = _ref(own.items[0]) if isinstance(own, Seq) and own.items else NONE
            yield TrainingStep(
                *(model, dtype, precision, "trainer", sharded, it.thing(_ref(given))),
                switch=switch,
                arguments=settings if own == NONE else None,
                undecided=undecided,
            )


def _differ(it: Interpreter, models: Sequence[int]) -> bool:
    """Whether models, of which one is trained, have different dtypes. One that is not known may have any."""
    things = [it.thing(model) for model in models]
    return (
        len(models) > 1
        and len({find_trained_dtype(each) for each in things if each is not None} - {UNKNOWN}) > 1
    )


def _by_optimizer(
    it: Interpreter, ref: Value, precision: Value, by: str, *, scaler: HeapObject | None = None
) -> Iterator[TrainingStep]:
    optimizer = it.thing(ref) if isinstance(ref, Ref) else None
    accelerator = it.thing(_ref(optimizer.get("accelerator"))) if optimizer else None
    sharded = bool(accelerator and accelerator.get("sharded") == TRUE)
    refs = list_trained_models(it, ref)
    either = list_trained_models(it, ref, "either")
    undecided = _differ(it, [item.id for item in either])
    held: list[tuple[Value, HeapObject | None]] = [(item, it.thing(item)) for item in refs]
    for item, model in held or [(NONE, model) for model in _wrapped(it)]:
        if model is not None:
            apart = sharded or model.get("sharded") == TRUE
            dtype = find_trained_dtype(model)
            switch = accelerator.get("requested_at") if accelerator else NONE
            doubt = undecided and item in either
            yield TrainingStep(
                *(model, dtype, precision, by, apart, optimizer, scaler, switch),
                owner=accelerator,
                undecided=doubt,
            )
