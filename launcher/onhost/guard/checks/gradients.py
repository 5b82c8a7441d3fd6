"""Trainable parameters that get no gradient (G9)."""

from typing import Iterator

from ..parameter_names import list_names
from ..reporter import Violation
from ..training_state import Step


def missing_gradients(step: Step) -> Iterator[Violation]:
    """Report missing gradients: of some parameters after the first step, of all after the second."""
    # FSDP: parts that other ranks hold are empty in this rank.
    trainable = [p for p in step.list_trainable() if p.numel()]
    none = [p for p in trainable if p.grad is None]
    before, step.watched.without_gradient = step.watched.without_gradient, {id(p) for p in none}
    if not none:
        return
    names = list_names(step.training.torch, trainable, step.training.optimizers)
    named = zip(trainable, names)  # noqa: B905 - Python 3.9
    adapters = [p for p, name in named if "lora_" in name or "adapter" in name]
    dead = [p for p in none if before is not None and id(p) in before]
    everything = len(dead) == len(trainable)
    every_adapter = bool(adapters) and {id(p) for p in adapters} <= {id(p) for p in dead}
    if everything or every_adapter:
        who = "no trainable parameter" if everything else "none of the %d adapter tensors" % len(adapters)
        text = "%s has got a gradient in two steps: nothing is being trained" % who
        fix = (
            "with gradient checkpointing call model.enable_input_require_grads(), or pass"
            " use_reentrant=False; make the optimizer after PEFT has made its adapters"
        )
        yield Violation("G9", text, fix, True, dead)
    elif before is None and len(none) < len(trainable) and not (adapters and len(none) >= len(adapters)):
        text = "%d of %d trainable parameter tensors got no gradient in the first step"
        fix = "freeze what is not used (requires_grad_(False)), or find out why the loss does not reach it"
        yield Violation("G9", text % (len(none), len(trainable)), fix, parameters=none)
