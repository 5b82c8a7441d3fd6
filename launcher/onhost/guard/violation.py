"""Violation found by a check, with its fix."""

from typing import Any, NamedTuple


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
