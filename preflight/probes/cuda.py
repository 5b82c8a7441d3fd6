"""Whether CUDA starts: what libcuda answers a process that starts it as a rank does.

NVML can be fine where no rank can compute: they are two libraries, and CUDA needs device files of its own.
No context is made, so no GPU is used and no memory of one taken.
"""

import ctypes
import os
from typing import Any

from .driver_library import list_refused_device_files, load_library
from .fact import Emit, Json, missing, truncate
from .request import ProbeRequest

_NO_PIPES = "/nonexistent"


def probe(ask: ProbeRequest, emit: Emit) -> None:
    """Emit facts.CudaStart."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # a launch chooses the GPUs of its ranks itself
    os.environ["CUDA_MPS_PIPE_DIRECTORY"] = _NO_PIPES  # a client would have the MPS daemon start a server
    cuda, name, refused = load_library("libcuda.so.1", ask.env.get("LD_LIBRARY_PATH"))
    emit("cuda", missing(truncate(refused), "no-library") if cuda is None else _start(cuda, name))


def _start(cuda: Any, name: str) -> Json:
    """Return facts.CudaStart as this library has it."""
    uuids: list[str] = []
    code = cuda.cuInit(0)
    count = ctypes.c_int()
    code = code or cuda.cuDeviceGetCount(ctypes.byref(count))
    for index in range(count.value):
        device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
        code = code or cuda.cuDeviceGet(ctypes.byref(device), index)
        code = code or cuda.cuDeviceGetUuid(uuid, device)
        text = bytes(uuid).hex()
        uuids.append("GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:])))
    error = truncate(_words(cuda, code) + list_refused_device_files()) if code else ""
    return {"library": name, "code": code, "error": error, "uuids": [] if code else uuids}


def _words(cuda: Any, code: int) -> str:
    """Return a CUresult as `CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected`."""
    found = []
    for ask in (cuda.cuGetErrorName, cuda.cuGetErrorString):
        text = ctypes.c_char_p()
        if ask(code, ctypes.byref(text)) == 0 and text.value:
            found.append(text.value.decode("utf-8", "replace"))
    return ": ".join(found) or "CUDA error %d" % code
