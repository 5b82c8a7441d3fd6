"""Loss and gradient norm as the script computes them (G4)."""

import functools
import math
from typing import Any, Callable

from ..async_reads import AsyncRead
from ..reporter import MonitorParts, Violation
from ..tensors import get_local_part

KEPT = 250  # values of a GPU kept until a sample or the last of them sends them


class LossMonitor:
    """Monitor of every loss and gradient norm; `heard` gets each number once it is known."""

    def __init__(self, parts: MonitorParts, heard: Callable[[str, float], None]) -> None:
        self._training, self._reporter, self._readings, self._evidence = parts
        self._heard = heard
        self._kept: dict[str, list[tuple[int, Any]]] = {"loss": [], "gradient norm": []}
        self._was_scaled = False

    def take_norm(self, norm: Any) -> None:
        """Record the result of clip_grad_norm_."""
        self._take("gradient norm", norm)

    def take_unscaled(self, loss: Any) -> None:
        """Record a loss that a GradScaler scales: the next backward is not from a loss any more."""
        self._take("loss", loss)
        self._was_scaled = True

    def take_backward(self, loss: Any) -> None:
        """Record the tensor of a backward, unless it is a scaled loss."""
        was_scaled, self._was_scaled = self._was_scaled, False
        if not was_scaled:
            self._take("loss", loss)

    def send(self) -> None:
        """Start the copies of values kept on a GPU to the CPU."""
        for what, notes in self._kept.items():
            if not notes:
                continue
            steps = [step for step, _ in notes]
            values = [value.float().reshape(()) for _, value in notes]
            notes.clear()
            if len({value.device for value in values}) == 1:
                torch = self._training.torch
                reading = AsyncRead(torch, [torch.stack(values)])
                self._readings.submit(reading, functools.partial(self._arrived, what, steps))

    def _take(self, quantity: str, value: Any) -> None:
        """Record a number; one on the CPU is checked at once."""
        if isinstance(value, (list, tuple)) or not hasattr(value, "numel"):
            return
        if value.numel() != 1:
            return
        if type(value) is not self._training.torch.Tensor or value.device.type != "cpu":
            value = get_local_part(value)
        if value.device.type == "cpu":
            self._judge(quantity, float(value))
            return
        notes = self._kept[quantity]
        notes.append((self._step_to_come(), value))
        if len(notes) >= KEPT:
            self.send()

    def _step_to_come(self) -> int:
        return self._training.step_now() + 1

    def _arrived(self, quantity: str, steps: list[int], reading: AsyncRead) -> None:
        for step, number in zip(steps, reading.numbers()):  # noqa: B905 - Python 3.9
            self._judge(quantity, number, step)

    def _judge(self, quantity: str, number: float, step: int | None = None) -> None:
        """Check a number of a step, by default the coming one, which is computed only if needed."""
        self._heard(quantity, number)
        has_scaler = self._training.has_scaler
        if math.isfinite(number) or (has_scaler and quantity != "loss"):
            return  # the scaler itself skips the step
        step = self._step_to_come() if step is None else step
        self._evidence.record_suspicion(quantity, step)
        if not has_scaler:
            fix = "look at this step's data, the learning rate, and fp16 that overflows in the forward"
            self._reporter.report(Violation("G4", "the %s is not finite" % quantity, fix), step)
