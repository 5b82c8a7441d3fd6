"""What a script, and the rules, learn of the rank's GPU. What asks nothing reads the same on all GPUs."""

from typing import TYPE_CHECKING

from preflight.facts.gpu import Capability

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter


def capability_of(it: "Interpreter") -> Capability | None:
    """Return the compute capability, None for CPU ranks. The reading then holds for this GPU alone."""
    it.asked_gpu = it.asked_gpu or it.target.capability is not None
    return it.target.capability


def before_ampere(it: "Interpreter") -> bool:
    """Whether the rank's GPU is older than Ampere. To be asked last: only where the answer counts."""
    capability = capability_of(it)
    return capability is not None and capability < (8, 0)
