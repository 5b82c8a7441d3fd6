"""How a config and a command line spell mixed precision."""

PRECISIONS = ("auto", "no", "fp16", "bf16", "fp8")
PRECISION_ALIASES = {"fp32": "no", "float32": "no", "float16": "fp16", "bfloat16": "bf16"}
"""What people type for accelerate's words."""
