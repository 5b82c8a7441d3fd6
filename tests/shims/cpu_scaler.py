# Test shim, put in front of a script: accelerate has no fp16 scaler on a CPU (accelerator.py, "native_amp" is
# only set up for accelerators); torch's GradScaler and autocast do support one. This turns both on.
from typing import Any


def _turn_on_fp16_on_cpu() -> None:
    import torch  # noqa: PLC0415 - leaves no name behind in the script
    from accelerate import Accelerator  # noqa: PLC0415

    original = Accelerator.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if self.mixed_precision == "fp16" and self.scaler is None:
            self.scaler = torch.amp.GradScaler("cpu")
            self.native_amp = True

    Accelerator.__init__ = init


_turn_on_fp16_on_cpu()
