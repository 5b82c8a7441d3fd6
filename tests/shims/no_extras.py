"""torch without what its import only hands on, for trainings that use none of it.

These are the exporter, operators of control flow, function transforms, quantized modules, masked and nested
tensors and distributions: a quarter of the import that `no_compiler` and `no_dtensor` leave. Their classes
have no instance among tensors and models, their functions raise.
"""

import importlib
import sys
from types import ModuleType

EXPORT = ("torch.export", "torch._export", "torch._higher_order_ops", "torch.func")
QUANTIZED = tuple(f"torch.nn.{name}" for name in ("intrinsic", "qat", "quantizable", "quantized"))
LEFT_OUT = (
    *EXPORT,
    *QUANTIZED,
    "torch.ao",
    "torch.quantization",
    "torch.masked",
    "torch.nested",
    "torch.distributions",
    "torch._native",
    "torch._precompile",  # since torch 2.14: its import needs operators of control flow
)


def turn_on(_: ModuleType) -> None:
    """Find none of them, right after torch._compile was imported."""
    sys.meta_path.insert(0, importlib.import_module("no_dtensor").AbsentModules(LEFT_OUT))
