"""accelerate has no fp16 scaler on a CPU, torch has: this turns on accelerate's scaler and autocast there."""

from types import ModuleType
from typing import Any


def turn_on(accelerator: ModuleType) -> None:
    """Change accelerate.accelerator, right after it was imported."""
    import torch  # noqa: PLC0415 - it is there already; the shims themselves import nothing heavy

    owner: Any = accelerator
    original = owner.Accelerator.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self.mixed_precision == "fp16" and self.scaler is None:
            self.scaler = torch.amp.GradScaler("cpu")
            self.native_amp = True

    owner.Accelerator.__init__ = init
