"""What a look says: what is wrong, and what helps."""

from __future__ import annotations

from typing import Any, NamedTuple


class Violation(NamedTuple):
    """Something the guard has seen. `stops`: nothing good can come of going on."""

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
"""What helps against float16 parameters, however they were noticed."""
