"""Violations that checks find, and their reports to the client and in the rank's log."""

import contextlib
import sys
from typing import Any, NamedTuple

from .async_reads import AsyncReads
from .parameter_names import MAX_NAMES, list_names
from .rank_exit import STOP_EXIT, GuardExit
from .sampling_policy import SamplingPolicy
from .training_state import TrainingState


class Violation(NamedTuple):
    """Violation found by a check. `fatal`: training cannot succeed if it continues."""

    code: str
    message: str
    fix: str
    fatal: bool = False
    parameters: Any = ()  # the tensors


FIX_FP16 = (
    "load the trainable parameters in float32 (dtype=torch.float32, `torch_dtype=` before transformers 4.56)"
    " and keep the mixed precision; too big for that: PEFT/LoRA, whose adapters stay float32; GPUs of compute"
    " capability 8.0 and up: load and train in bf16"
)
"""Fix for float16 parameters, for all checks that detect them."""


class GuardReporter:
    """Reporter that reports each violation once, and ends the rank where the policy is to stop."""

    def __init__(self, training: TrainingState, leaving: GuardExit, *, stops: bool) -> None:
        self.stops = stops  # the policy; off when it is too late to stop
        self._training = training
        self._leaving = leaving
        self._reported: set[str] = set()

    def report(self, wrong: Violation, step: int) -> None:
        """Report a violation once; end the rank where the policy is to stop."""
        stops = wrong.fatal and self.stops
        key = "%s %s" % (wrong.code, wrong.message[:12])
        if key in self._reported and not stops:
            return
        self._reported.add(key)
        training = self._training
        about = wrong.parameters
        names = list_names(training.torch, about, training.optimizers) if len(about) else []
        training.tools.report(
            "guard",
            code=wrong.code,
            severity="stop" if wrong.fatal else "warn",
            stops=stops,
            step=step,
            message=wrong.message,
            fix=wrong.fix,
            parameters=names[:MAX_NAMES],
            parameters_total=len(names),
        )
        with contextlib.suppress(Exception):
            print(_in_words(wrong, step, names, stops=stops), file=sys.stderr, flush=True)
        if stops:
            self._leaving.raise_exit(STOP_EXIT)


class MonitorParts(NamedTuple):
    """What the monitors of values share."""

    training: TrainingState
    reporter: GuardReporter
    readings: AsyncReads
    evidence: SamplingPolicy


def _in_words(wrong: Violation, step: int, names: list[str], *, stops: bool) -> str:
    end = "stopped this rank" if stops else "warns"
    lines = ["gpulaunch guard %s at optimizer step %d [%s]: %s" % (end, step, wrong.code, wrong.message)]
    if names:
        more = " and %d more" % (len(names) - MAX_NAMES) if len(names) > MAX_NAMES else ""
        lines.append("  parameters: %s%s" % (", ".join(names[:MAX_NAMES]), more))
    lines.append("  fix: %s" % wrong.fix)
    return "\n".join(lines)
