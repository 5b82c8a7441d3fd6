"""All GPUs by NVML, side by side."""

import threading
from typing import Any

from ..driver_library import refused_device_files
from ..earlier_facts import Known
from ..fact import Emit, Json, exception_reason, missing
from .answers import as_text, fact_nvml, nvml_missing
from .gpu_fields import FIXED_FIELDS, GPU_FIELDS
from .library import driver_file_hint


def nvml_gpus(nv: Any, emit: Emit, known: Known | None = None) -> None:
    """Emit driver and gpus; `nv` is pynvml. Of GPUs that are known, what cannot change is not read again."""
    try:
        nv.nvmlInit()
    except nv.NVMLError as error:
        excuse = nvml_missing(error)
        excuse["missing"] += driver_file_hint() + refused_device_files()
        emit("driver", excuse)
        emit("gpus", excuse)
        return
    driver = fact_nvml(nv, lambda: _driver(nv))
    emit("driver", driver)
    count = fact_nvml(nv, nv.nvmlDeviceGetCount)
    if isinstance(count, dict):
        emit("gpus", count)
        return
    if count == 0:
        refused = refused_device_files()
        code = "no-permission" if refused else "no-devices"
        emit("gpus", missing("the driver is loaded and lists no GPU" + refused, code))
        return
    names = [name for name, _ in GPU_FIELDS]
    emit("gpus", "owed", {"count": count, "fields": names, "fixed": [*FIXED_FIELDS]})
    same = known.gpus if known is not None and driver.get("version") == known.driver else frozenset()
    # A thread per GPU: ctypes lets go of the interpreter in each call, so that a GPU that hangs costs the
    # others nothing.
    threads = [threading.Thread(target=_gpu, args=(nv, i, emit, same), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _driver(nv: Any) -> Json:
    """Return facts.Driver."""
    cuda = fact_nvml(nv, nv.nvmlSystemGetCudaDriverVersion_v2)
    return {
        "version": as_text(nv.nvmlSystemGetDriverVersion()),
        "cuda_version": cuda if isinstance(cuda, dict) else "%d.%d" % (cuda // 1000, cuda % 1000 // 10),
        "source": "nvml",
    }


def _gpu(nv: Any, index: int, emit: Emit, known: frozenset[str]) -> None:
    """Emit every field of one GPU as soon as it is known; a lost one keeps its index."""
    try:
        handle = nv.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:
        excuse = nvml_missing(error) if isinstance(error, nv.NVMLError) else exception_reason(error)
        for name, _ in GPU_FIELDS:
            emit("gpus", index, name, excuse)
        return
    same = False
    for name, read in GPU_FIELDS:
        if same and name in FIXED_FIELDS:
            continue
        value = fact_nvml(nv, lambda read=read: read(nv, handle))  # type: ignore[misc]
        emit("gpus", index, name, value)
        if name == "uuid" and isinstance(value, str) and value in known:
            same = True
            emit("gpus", index, "same", same)
