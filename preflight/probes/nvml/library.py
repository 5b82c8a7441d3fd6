"""NVML's library and pynvml on top of it."""

import ctypes
import os
import re
import sys
import types
import zlib
from typing import Any

from ..files import text_or

_NVML_FOLDERS = (
    "/usr/lib/wsl/lib/",
    "/usr/local/nvidia/lib64/",
    "/usr/lib64-nvidia/",
    "/run/opengl-driver/lib/",
)
_NVML_NAME = "libnvidia-ml.so.1"


def load_nvml() -> str:
    """Load NVML's library; return why it cannot be, or ""."""
    refused = ""
    for folder in ("", *_NVML_FOLDERS):
        if folder and not os.path.exists(folder + _NVML_NAME):
            continue
        try:
            ctypes.CDLL(folder + _NVML_NAME)  # pynvml then gets this one by its soname
        except OSError as error:
            refused = refused or str(error)
        else:
            return ""
    return refused


def import_pynvml(packed: bytes) -> Any:
    """Return pynvml as a module made of the source that came with the request."""
    module: Any = types.ModuleType("pynvml")
    sys.modules["pynvml"] = module
    source = zlib.decompress(packed).decode("utf-8")
    exec(compile(source, "pynvml.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - sent by the client
    return module


def driver_file_hint() -> str:
    """Return what the kernel module says of itself, for a message."""
    match = re.search(r"Kernel Module.*?(\d+\.\d+[.\d]*)", text_or("/proc/driver/nvidia/version"))
    return (
        "; the loaded kernel module is %s" % match.group(1)
        if match
        else "; no NVIDIA kernel module is loaded"
    )
