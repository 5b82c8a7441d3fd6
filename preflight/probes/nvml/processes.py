"""The processes that NVML lists on a GPU, by drivers old and new."""

import ctypes
from typing import Any

from ..fact import Json, missing
from .answers import decode_text, read_nvml_fact

_PROCESS_CALLS = (
    ("compute", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ("mps", "nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
    ("graphics", "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"),
)
"""In full: of pynvml travels what this folder names (launcher/remote/pynvml_source.py)."""


def read_processes(nv: Any, gpu: Any) -> list[Json]:
    """Return facts.ComputeProcess for each process on the GPU."""
    found: dict[int, Json] = {}
    for kind, *calls in _PROCESS_CALLS:
        try:
            listed = _running(nv, gpu, calls)
        except nv.NVMLError as error:
            if kind != "compute" and error.value in (2, 3, 13, 25):
                continue
            raise
        for process in listed:
            pid, used = int(process.pid), process.usedGpuMemory
            if pid in found:  # "C+G", or "M+C", a client of MPS (driver 580): its memory counts once
                found[pid]["kind"] = "mps" if kind == "mps" else found[pid]["kind"]
                continue
            known = used is not None and int(used) != 0xFFFFFFFFFFFFFFFF
            found[pid] = {
                "pid": pid,
                "kind": kind,
                "used_mib": int(used) >> 20 if known else missing("the driver does not say", "not-supported"),
                "name": read_nvml_fact(nv, lambda pid=pid: decode_text(nv.nvmlSystemGetProcessName(pid))),  # type: ignore[misc]
            }
    return sorted(found.values(), key=lambda process: int(process["pid"]))


def _running(nv: Any, gpu: Any, calls: list[str]) -> Any:
    """Call the newest version of a process list that this driver has."""
    for call in calls:
        try:
            return getattr(nv, call)(gpu)
        except nv.NVMLError as error:
            if error.value != 13:
                raise
    return _running_v1(nv, gpu, calls[0].removesuffix("_v3"))


def _running_v1(nv: Any, gpu: Any, call: str) -> list[Any]:
    """Call the list of drivers before 450, whose entries have pid and memory only."""

    class _Entry(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong)]

    function = getattr(nv.nvmlLib, call, None)
    if function is None:
        raise nv.NVMLError(13)
    entries = (_Entry * 1024)()
    count = ctypes.c_uint(1024)
    code = function(gpu, ctypes.byref(count), entries)
    if code:
        raise nv.NVMLError(code)
    return list(entries[: count.value])
