"""A rehearsal inside a rank: a few steps of the real script, measured and reported once."""

import functools
import math
from types import ModuleType
from typing import Any, Callable

from ..checks.grad_scaler import ScalerMonitor
from ..checks.non_finite import FiniteMonitor
from ..parameter_names import MAX_NAMES, names_of
from ..safe_call import SafeCaller
from ..sampling_policy import SamplingPolicy
from ..tensors import first_cuda, histogram, trained_parameters
from ..training_state import TrainingState, WatchedOptimizer, mixed_precision
from .hf_trainer import TrainerHooks
from .memory_stats import memory_stats, state_dtypes
from .sample_counter import SampleCounter
from .step_timer import StepTimer

MAX_LOSSES = 200


class Rehearsal:
    """Collector of the steps' measurements; `end` ends the script after the last step."""

    def __init__(self, training: TrainingState, steps: int, end: Callable[[], None]) -> None:
        self._training = training
        self._steps = StepTimer(steps, end)
        self._samples = SampleCounter()
        self._trainer = TrainerHooks(self._steps)
        self._with_gradient: set[int] = set()
        self._optimizers: list[Any] = []  # held, so that they can still be measured when the script has ended
        self._losses: list[float] = []
        self._non_finite: set[str] = set()
        self._gradient_dtypes: dict[str, int] = {}
        self._was_reported = False

    def modules(self, safety: SafeCaller) -> dict[str, Callable[[ModuleType], None]]:
        """Return the modules to watch, and the hook to call once each one is imported."""
        return {
            "transformers.trainer_callback": functools.partial(self._trainer.install, safety=safety),
            "torch.utils.data.dataloader": functools.partial(self._samples.watch_loaders, safety=safety),
        }

    def on_value(self, quantity: str, number: float) -> None:
        """Record a loss or a gradient norm."""
        if quantity == "loss":
            self._losses.append(number)
        if not math.isfinite(number):
            self._non_finite.add(quantity)

    def before_step(self, optimizer: Any) -> None:
        """Record the parameters that have a gradient."""
        if not any(each is optimizer for each in self._optimizers):
            self._optimizers.append(optimizer)
        found = [p for p in trained_parameters(optimizer) if p.grad is not None]
        self._with_gradient.update(id(p) for p in found)
        self._gradient_dtypes = histogram(p.grad.dtype for p in found)

    def stepped(self, seen: WatchedOptimizer) -> None:
        """Count a step, performed or skipped; end after the last one, unless Trainer has yet to evaluate."""
        steps = self._steps
        steps.count(seen)
        if steps.after_first() == 0:
            self._samples.first_step_ended()
        if steps.are_done() and not steps.trainer_ends_them:
            steps.end()

    def report(self, values: FiniteMonitor, scaling: ScalerMonitor, evidence: SamplingPolicy) -> None:
        """Report the measurements, once."""
        training = self._training
        if self._was_reported or training.torch is None or not self._optimizers:
            return
        self._was_reported = True
        trained = [p for optimizer in self._optimizers for p in trained_parameters(optimizer)]
        scale = scaling.scale
        measured = {
            **self._counts(),
            **self._tensors(trained),
            "scaler": training.has_scaler,
            "scale": None if math.isnan(scale) else scale,
            "mixed_precision": mixed_precision(),
            "losses": [
                round(loss, 6) if math.isfinite(loss) else str(loss) for loss in self._losses[-MAX_LOSSES:]
            ],
            "finite": {
                "loss": None if not self._losses else "loss" not in self._non_finite,
                "gradients": not {"gradients", "gradient norm"} & set(evidence.first_bad),
                "weights": not values.lost(trained),
            },
            **self._steps.median(),
            "events": self._steps.events,
            "samples_per_step_here": self._samples.per_step(self._steps.after_first()),
            **self._trainer.values,
        }
        training.tools.report("rehearsal", **measured)

    def _counts(self) -> dict[str, Any]:
        watched = list(self._training.optimizers.values())
        return {
            "complete": self._steps.complete,
            "steps": self._steps.done,
            "performed": max((each.fired for each in watched), default=0),
            "skipped": sum(each.skips for each in watched),
        }

    def _tensors(self, trained: list[Any]) -> dict[str, Any]:
        training = self._training
        torch = training.torch
        without = [p for p in trained if id(p) not in self._with_gradient and p.numel()]
        device = first_cuda(trained)
        return {
            "parameter_dtypes": histogram(p.dtype for p in trained),
            "gradient_dtypes": self._gradient_dtypes,
            "state_dtypes": state_dtypes(torch, self._optimizers),
            "without_gradient": names_of(torch, without, training.optimizers)[:MAX_NAMES],
            "trainable": len(trained),
            "devices": histogram(p.device for p in trained),
            "gpu": training.tools.gpu_uuid(device) if device is not None else "",
            "memory": memory_stats(torch, device),
        }
