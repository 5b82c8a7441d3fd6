"""Non-finite weights and gradients (G4)."""

import functools
import math
import time
import weakref
from typing import Any, Iterable

from ..async_reads import AsyncRead
from ..reporter import FIX_FP16, MonitorParts, Violation
from ..tensors import get_local_part, list_parameters
from ..training_state import Step

FIX_LOST = (
    "nothing can be saved from these weights: start again from the last good checkpoint, with a"
    " lower learning rate, gradient clipping, or float32 parameters if these were cast"
)


class FiniteMonitor:
    """Monitor that computes one number per device, finite if all values are; sums propagate NaN and Inf."""

    def __init__(self, parts: MonitorParts) -> None:
        self._training, self._reporter, self._readings, self._evidence = parts
        self._born_bad: set[int] = set()  # not finite before the first step: masks, unused rows

    # --- checks ---

    def first_weights(self, step: Step) -> Iterable[Violation]:
        """Compute one number per weight tensor, to exclude weights that never were finite from reports."""
        torch = self._training.torch
        for sums in self._sum_each(list_parameters(step.optimizer)):
            reading = AsyncRead(torch, [torch.stack([total for _, total in sums])])
            self._readings.submit(reading, functools.partial(self._judge_first, [key for key, _ in sums]))
        self._readings.poll()
        return ()

    def wants_gradients(self, step: Step) -> bool:
        """Return whether to check this step's gradients; a scaler checks its own."""
        if step.has_closure:
            return False
        return self._evidence.should_sample() and not self._training.has_scaler

    def gradients(self, step: Step) -> Iterable[Violation]:
        """Send the gradients' sums; they are checked when their copies are complete."""
        began = time.perf_counter()
        gradients = [p.grad for p in list_parameters(step.optimizer) if p.grad is not None]
        self._send(self._judge_gradients, step.optimizer, gradients)
        step.watched.values_budget.charge(began)
        return ()

    def weights(self, optimizer: Any) -> None:
        """Send the weights' sums."""
        began = time.perf_counter()
        self._send(self._judge_weights, optimizer, list(list_parameters(optimizer)))
        self._training.record(optimizer).values_budget.charge(began)

    def find_lost(self, parameters: Iterable[Any]) -> list[Any]:
        """Return parameters that were finite once and are not any more; waits for the GPU."""
        torch = self._training.torch
        born_good = [p for p in parameters if id(p) not in self._born_bad]
        return [p for p in born_good if not bool(torch.isfinite(get_local_part(p)).all())]

    def _send(self, judge: Any, optimizer: Any, tensors: list[Any]) -> None:
        torch = self._training.torch
        sums_by_device = self._sum_each(each for each in tensors if id(each) not in self._born_bad)
        values = [torch.stack([total for _, total in sums]).sum().reshape(1) for sums in sums_by_device]
        if values:
            step = self._training.record(optimizer).tries
            about = functools.partial(judge, step, weakref.ref(optimizer))
            self._readings.submit(AsyncRead(torch, values), about)

    def _sum_each(self, tensors: Iterable[Any]) -> Iterable[list[tuple[int, Any]]]:
        """Return for each device the tensors with plain values, by id, with their sums."""
        by_device: dict[Any, list[tuple[int, Any]]] = {}
        for tensor in tensors:
            total = self._sum(tensor)
            if total is not None:
                by_device.setdefault(total.device, []).append((id(tensor), total))
        return by_device.values()

    def _sum(self, tensor: Any) -> Any:
        """Return a number that is finite if all values are, None for a tensor without plain values."""
        torch = self._training.torch
        own = get_local_part(tensor)
        if own.layout is not torch.strided or not own.is_floating_point() or own.numel() == 0:
            return None
        wide = torch.float64 if own.dtype is torch.float64 else torch.float32
        return own.sum(dtype=wide).float()

    # --- evaluation of complete reads; to confirm and name a violation, waiting for the GPU is fine ---

    def _judge_first(self, keys: list[int], reading: AsyncRead) -> None:
        pairs = zip(keys, reading.numbers())  # noqa: B905 - Python 3.9
        self._born_bad.update(key for key, number in pairs if not math.isfinite(number))

    def _judge_gradients(self, step: int, about: Any, reading: AsyncRead) -> None:
        optimizer = about()
        if optimizer is None or _all_finite(reading):
            return
        torch = self._training.torch
        with_gradient = [p for p in list_parameters(optimizer) if p.grad is not None]
        bad = [p for p in with_gradient if not bool(torch.isfinite(get_local_part(p.grad)).all())]
        self._evidence.record_suspicion("gradients", step)
        text = "gradients are not finite, and no GradScaler will skip this step: the weights are lost by it"
        fix = "the forward overflows (fp16 without autocast?) or the loss does; find the first bad batch"
        self._reporter.report(Violation("G4", text, fix, parameters=bad), step)

    def _judge_weights(self, step: int, about: Any, reading: AsyncRead) -> None:
        optimizer = about()
        if optimizer is None:
            return
        seen = self._training.record(optimizer)
        if _all_finite(reading):
            seen.last_good = max(seen.last_good, step)
            return
        weights = list(list_parameters(optimizer))
        bad = self.find_lost(weights)
        if not bad:
            return  # the sum overflowed, the weights did not
        self._evidence.record_bad("weights", step)
        self._tell_lost(step, bad, len(weights), seen.last_good)

    def _tell_lost(self, step: int, bad: list[Any], total: int, good: int) -> None:
        earlier = {what: at for what, at in self._evidence.first_bad.items() if what != "weights"}
        first = min([step, *earlier.values()])
        text = "%d of %d weight tensors are NaN or Inf after step %d" % (len(bad), total, step)
        text += " (finite after step %d)" % good if good else " (finite when it began)"
        if earlier:
            text += "; bad first: %s at step %d" % (", ".join(sorted(earlier)), first)
        else:
            text += "; gradients were finite"
        torch = self._training.torch
        fix = FIX_FP16 if any(p.dtype is torch.float16 for p in bad) else FIX_LOST
        self._reporter.report(Violation("G4", text, fix, True, bad), first)


def _all_finite(reading: AsyncRead) -> bool:
    return all(map(math.isfinite, reading.numbers()))
