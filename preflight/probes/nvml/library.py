"""NVML's library and pynvml on top of it."""

import re
import sys
import types
import zlib
from typing import Any

from ..driver_library import load_library
from ..files import read_text_or


def load_nvml() -> str:
    """Load NVML's library; return why it cannot be, or ""."""
    _, _, refused = load_library("libnvidia-ml.so.1")  # pynvml then gets this one by its soname
    return refused


def import_pynvml(packed: bytes) -> Any:
    """Return pynvml as a module made of the source that came with the request."""
    module: Any = types.ModuleType("pynvml")
    sys.modules["pynvml"] = module
    source = zlib.decompress(packed).decode("utf-8")
    exec(compile(source, "pynvml.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - sent by the client
    return module


def read_driver_hint() -> str:
    """Return what the kernel module says of itself, for a message."""
    match = re.search(r"Kernel Module.*?(\d+\.\d+[.\d]*)", read_text_or("/proc/driver/nvidia/version"))
    return (
        "; the loaded kernel module is %s" % match.group(1)
        if match
        else "; no NVIDIA kernel module is loaded"
    )
