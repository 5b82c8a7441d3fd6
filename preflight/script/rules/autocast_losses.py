"""Rules P143 and P144: a loss that autocast refuses, and a scaler of what needs none."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import MAYBE
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.models import find_trained_dtype
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Const, Dtype
from preflight.script.values.constants import FALSE, TRUE
from preflight.script.values.operations import as_text

_ON, _OFF = "autocast is on", "autocast is off, or may be"


@rule("P143", "autocast", "forward", "unsafe loss")
def loss_that_autocast_refuses(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """BCELoss or binary_cross_entropy within autocast on a GPU.

    torch stops: "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast".
    Lightning's precision="16-mixed" has all of training_step() in it.
    Source: torch's documentation of autocast, the operations that prefer BCE with logits on CUDA.
    """
    if event.name == "autocast":
        on = event.values.get("enabled") == TRUE and event.what == "cuda"
        it.note(_ON if on else _OFF, event.place)
        return
    thing = it.thing(event.ref)
    if event.name == "forward" and (thing is None or as_text(thing.get("__name__")) != "torch.nn.BCELoss"):
        return
    within = "autocast" in it.contexts and it.notes.get(_ON) and not it.notes.get(_OFF)
    if (within or _of_lightning(it)) and it.target.capability is not None:
        message = "autocast refuses binary_cross_entropy: in half precision its logarithm overflows"
        fix = "BCEWithLogitsLoss on the logits, without the sigmoid"
        level = Level.WARNING if MAYBE in it.contexts else Level.ERROR
        yield RuleHit(event.place, message, fix, level)


def _of_lightning(it: Interpreter) -> bool:
    """Whether a hook is being read that Lightning calls in autocast."""
    function = getattr(it.function.node, "name", "") if it.function else ""
    if "training" not in it.contexts or not function.endswith("_step"):
        return False
    trainers = [thing for thing in it.state.heap.values() if thing.kind == "lightning trainer"]
    return bool(trainers) and all(
        thing.get("mixed_precision") in (Const("fp16"), Const("bf16")) for thing in trainers
    )


@rule("P144", "scaler", "scaled", "autocast", "end")
def scaler_of_bf16(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A GradScaler scales the loss of a forward in bf16.

    bf16 has the range of float32: nothing underflows. Scaling costs a look at every gradient, and leaves out
    steps where one is infinite, until the scale has come down from 65536.
    Source: torch's amp examples; torch/amp/grad_scaler.py.
    """
    if event.name == "scaled":
        scaler = it.thing(event.ref)
        if scaler is not None and scaler.get("enabled") == TRUE:
            it.note(_SCALES, scaler.place)
    elif event.name == "autocast":
        if "no_grad" not in it.contexts and event.values.get("enabled") != FALSE:
            bf16 = event.values.get("dtype") == Dtype("bfloat16") and event.values.get("enabled") == TRUE
            it.note(_BF16 if bf16 else _OTHERS, event.place)
    elif event.name == "end" and it.notes.get(_BF16) and not it.notes.get(_OTHERS):
        models = [thing for thing in it.state.heap.values() if thing.get("optimized") == TRUE]
        halves = (Dtype("bfloat16"), Dtype("float16"))
        if any(find_trained_dtype(model) in halves for model in models if model.kind == "model"):
            return  # P106 or P101 judge its weights
        for place in dict.fromkeys(it.notes.get(_SCALES, ())):
            message = "this scaler scales the loss of a forward in bf16, which needs no scale"
            source, named = it.sources.get(it.notes[_BF16][0].path), None
            if source is not None:
                named = _NAMED.search(source.lines[it.notes[_BF16][0].line - 1])
            name = named[1] if named else ""
            enabled = f"GradScaler(enabled={name} == torch.float16), below what sets {name}"
            fix = enabled if name else "leave it out"
            yield RuleHit(place, message, fix, Level.WARNING, (it.notes[_BF16][0],))


_NAMED = re.compile(r"\bdtype=((?:self\.|args\.)?\w+)(?=[,)])")  # a dtype that the script chooses
_SCALES, _BF16, _OTHERS = "a scaler scales", "autocast to bf16", "autocast to another dtype"
