"""A rehearsal inside a rank: a few steps of the real script, measured and reported once."""

import contextlib
import functools
import math
import os
from types import ModuleType
from typing import Any, Callable, Iterable

from ..checks.grad_scaler import ScalerMonitor
from ..checks.non_finite import FiniteMonitor
from ..parameter_names import MAX_NAMES, list_names
from ..safe_call import SafeCaller
from ..sampling_policy import SamplingPolicy
from ..tensors import count_values, find_first_cuda, list_parameters
from ..training_state import TrainingState, WatchedOptimizer, read_mixed_precision
from .hf_trainer import TrainerHooks
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

    def record_gradients(self, optimizer: Any) -> None:
        """Record the parameters that have a gradient."""
        if not any(each is optimizer for each in self._optimizers):
            self._optimizers.append(optimizer)
        found = [p for p in list_parameters(optimizer) if p.grad is not None]
        self._with_gradient.update(id(p) for p in found)
        self._gradient_dtypes = count_values(p.grad.dtype for p in found)

    def count_step(self, seen: WatchedOptimizer) -> None:
        """Count a step, performed or skipped; end after the last one, unless Trainer has yet to evaluate."""
        steps = self._steps
        steps.count(seen)
        if steps.count_after_first() == 0:
            self._samples.end_first_step()
        if steps.are_done() and not steps.trainer_ends_them:
            steps.end()

    def report(self, values: FiniteMonitor, scaling: ScalerMonitor, evidence: SamplingPolicy) -> None:
        """Report the measurements, once."""
        training = self._training
        if self._was_reported or training.torch is None or not self._optimizers:
            return
        self._was_reported = True
        trained = [p for optimizer in self._optimizers for p in list_parameters(optimizer)]
        scale = scaling.scale
        measured = {
            **self._counts(),
            **self._tensors(trained),
            "scaler": training.has_scaler,
            "scale": None if math.isnan(scale) else scale,
            "mixed_precision": read_mixed_precision(),
            "losses": [
                round(loss, 6) if math.isfinite(loss) else str(loss) for loss in self._losses[-MAX_LOSSES:]
            ],
            "finite": {
                "loss": None if not self._losses else "loss" not in self._non_finite,
                "gradients": not {"gradients", "gradient norm"} & set(evidence.first_bad),
                "weights": not values.find_lost(trained),
            },
            **self._steps.median(),
            "events": self._steps.events,
            "samples_per_step_here": self._samples.count_per_step(self._steps.count_after_first()),
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
        device = find_first_cuda(trained)
        return {
            "parameter_dtypes": count_values(p.dtype for p in trained),
            "gradient_dtypes": self._gradient_dtypes,
            "state_dtypes": state_dtypes(torch, self._optimizers),
            "without_gradient": list_names(torch, without, training.optimizers)[:MAX_NAMES],
            "trainable": len(trained),
            "devices": count_values(p.device for p in trained),
            "gpu": training.tools.gpu_uuid(device) if device is not None else "",
            "memory": read_memory_stats(torch, device),
        }


class SampleCounter:
    """Count of samples from DataLoaders, by dataset."""

    def __init__(self) -> None:
        self._given: dict[int, int] = {}
        self._given_before: dict[int, int] = {}  # the same, at the end of the first step

    def watch_loaders(self, module: ModuleType, safety: SafeCaller) -> None:
        """Hook into torch.utils.data.dataloader."""
        base: Any = getattr(module, "_BaseDataLoaderIter")  # noqa: B009 - a private class of torch
        original = base.__next__

        def following(iterator: Any) -> Any:
            batch = original(iterator)
            if safety.is_active():
                safety.call("count samples", self._gave, iterator, batch)
            return batch

        base.__next__ = functools.update_wrapper(following, original)

    def end_first_step(self) -> None:
        """Start the count: samples of the first step were loaded during warm-up."""
        self._given_before = dict(self._given)

    def count_per_step(self, steps: int) -> float | None:
        """Return the training samples per step over the last `steps`, None when no DataLoader was seen."""
        given = [count - self._given_before.get(key, 0) for key, count in self._given.items()]
        return max(given) / steps if steps > 0 and given and max(given) > 0 else None

    def _gave(self, iterator: Any, batch: Any) -> None:
        key = id(iterator._dataset)  # noqa: SLF001 - torch's own name for it
        self._given[key] = self._given.get(key, 0) + _length(batch)


def _length(batch: Any) -> int:
    """Return the number of samples in a batch: the first dimension of its first tensor."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((size for size in map(_length, batch) if size), 0)
    shape: Any = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else 0


def read_memory_stats(torch: Any, device: Any) -> dict[str, Any]:
    """Return peak and total memory in MiB: the GPU's, and this process's own."""
    import resource

    found: dict[str, Any] = {"rss_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}
    with contextlib.suppress(OSError, ValueError):
        found["host_total_mib"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    if device is not None:
        free, total = torch.cuda.mem_get_info(device)
        found["gpu_peak_allocated_mib"] = torch.cuda.max_memory_allocated(device) >> 20
        found["gpu_peak_reserved_mib"] = torch.cuda.max_memory_reserved(device) >> 20
        found["gpu_total_mib"] = total >> 20
        found["gpu_free_mib"] = free >> 20
    return found


def state_dtypes(torch: Any, optimizers: Iterable[Any]) -> dict[str, int]:
    """Return the dtypes of the optimizers' per-element state."""
    return count_values(
        value.dtype
        for optimizer in optimizers
        for moments in optimizer.state.values()
        if isinstance(moments, dict)
        for value in moments.values()
        if isinstance(value, torch.Tensor) and value.dim() > 0
    )
