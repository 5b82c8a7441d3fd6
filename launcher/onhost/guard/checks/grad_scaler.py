"""GradScaler checks: gradients that it cannot unscale (G1), and the steps that it skips (G5)."""

import math
import os
from typing import Any, Callable, Iterator

from ..async_reads import AsyncRead
from ..reporter import FIX_FP16, GuardReporter, Violation
from ..tensors import list_parameters
from ..training_state import TrainingState, WatchedOptimizer

SKIPS_IN_A_ROW = 8


class ScalerMonitor:
    """Monitor of this rank's scalers; `skipped` is called after each step that one has skipped."""

    def __init__(
        self, training: TrainingState, reporter: GuardReporter, skipped: Callable[[WatchedOptimizer], None]
    ) -> None:
        self.scale = math.nan  # as last read
        self._training = training
        self._reporter = reporter
        self._skipped = skipped
        self._skips_allowed = int(os.environ.get("GPULAUNCH_GUARD_SKIPS", "") or SKIPS_IN_A_ROW)
        self._skips_in_a_row = 0
        self._on_its_way: AsyncRead | None = None

    def check_unscaling(self, scaler: Any, optimizer: Any) -> None:
        """Check the gradients that a scaler is about to unscale."""
        self._training.has_scaler = True
        if type(scaler).__name__ == "ShardedGradScaler":
            return  # FSDP's own: it unscales fp16 gradients on purpose
        step = self._training.step_now() + 1
        for wrong in _cannot_be_unscaled(self._training.torch, optimizer):
            self._reporter.report(wrong, step)

    def count_step(self, optimizer: Any, skipped: bool) -> None:  # noqa: FBT001 - through safely()
        """Count a step that a scaler has performed or skipped."""
        optimizer = getattr(optimizer, "optimizer", optimizer)
        seen = self._training.record(optimizer)
        if _is_always_called(optimizer):
            return  # `read_scale` sees the scale fall
        if skipped:
            seen.tries += 1
        self._count(seen, skipped=skipped)

    def read_scale(self, scaler: Any) -> None:
        """Read the scale: on the CPU at once, from a GPU when its copy is complete."""
        scale = getattr(scaler, "_scale", None)
        if scale is None or not getattr(scaler, "_enabled", False):
            return
        if self._on_its_way is not None and self._on_its_way.is_ready():
            self._scale_is(self._on_its_way.numbers()[0])
            self._on_its_way = None
        if self._on_its_way is None:
            self._on_its_way = AsyncRead(self._training.torch, [scale.reshape(1)])
            if not self._on_its_way.events:
                self._scale_is(self._on_its_way.numbers()[0])
                self._on_its_way = None

    def _scale_is(self, number: float) -> None:
        before, self.scale = self.scale, number
        fused = [each for each in self._training.optimizers if _is_always_called(each)]
        if len(fused) == 1 and not math.isnan(before):
            self._count(self._training.record(fused[0]), skipped=number < before)
        if number < 1.0:
            text = "the GradScaler's scale has fallen below 1 (%g)" % number
            fix = "the gradients overflow whatever the scale: use bf16 or no mixed precision"
            self._reporter.report(Violation("G5", text, fix), self._training.step_now())

    def _count(self, seen: WatchedOptimizer, *, skipped: bool) -> None:
        self._skips_in_a_row = self._skips_in_a_row + 1 if skipped else 0
        if not skipped:
            return
        seen.skips += 1
        if self._skips_in_a_row >= self._skips_allowed:
            text = "the GradScaler has skipped %d steps in a row (scale %g): the gradients never are finite"
            fix = (
                "the forward overflows in fp16: use bf16 where the GPUs have it, or no mixed precision"
                " (models pretrained in bf16 often overflow in fp16)"
            )
            self._skips_in_a_row = 0
            first = seen.tries - self._skips_allowed + 1
            self._reporter.report(Violation("G5", text % (self._skips_allowed, self.scale), fix, True), first)
        self._skipped(seen)


def _is_always_called(optimizer: Any) -> bool:
    """Return whether the optimizer itself skips steps, as fused ones do."""
    return bool(getattr(optimizer, "_step_supports_amp_scaling", False))


def _cannot_be_unscaled(torch: Any, optimizer: Any) -> Iterator[Violation]:
    trained = [p for p in list_parameters(optimizer) if p.grad is not None]
    half = [p for p in trained if p.grad.dtype is torch.float16]
    if half:
        text = (
            "%d of %d trainable parameter tensors are float16 under a GradScaler, which raises"
            ' "Attempting to unscale FP16 gradients."; with a fused optimizer and no clipping it would'
            " silently train in pure fp16"
        )
        yield Violation("G1", text % (len(half), len(trained)), FIX_FP16, True, half)
    brain = [p for p in trained if p.grad.dtype is torch.bfloat16 and p.device.type == "cuda"]
    if brain:
        text = (
            "%d of %d trainable parameter tensors are bfloat16 under a GradScaler, which has no CUDA"
            " kernel for them (\"not implemented for 'BFloat16'\")"
        )
        fix = "keep float32 parameters under fp16 mixed precision, or use bf16, which has no scaler"
        yield Violation("G1", text % (len(brain), len(trained)), fix, True, brain)
