"""All GPUs by NVML, side by side."""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from ..driver_library import list_refused_device_files
from ..earlier_facts import Known
from ..fact import Emit, Json, missing
from ..gpu_enums import COMPUTE_MODES, NO_RESERVE
from ..pci import format_bus_id
from .answers import decode_text, explain_nvml_error, read_nvml_fact
from .health import read_ecc, read_recovery, read_remap, read_retired_pages, read_throttle
from .library import read_driver_hint
from .processes import read_processes

_MOST_NVLINKS = 18
_FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}


def read_pcie(nv: Any, gpu: Any) -> Json:
    """Return facts.PcieLink."""
    return {
        "generation": int(nv.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
        "generation_max": int(nv.nvmlDeviceGetMaxPcieLinkGeneration(gpu)),
        "width": int(nv.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
        "width_max": int(nv.nvmlDeviceGetMaxPcieLinkWidth(gpu)),
    }


def read_nvlinks(nv: Any, gpu: Any) -> Any:
    """Return facts.NvLink for each link that the GPU has."""
    links = []
    for link in range(_MOST_NVLINKS):
        try:
            active = bool(nv.nvmlDeviceGetNvLinkState(gpu, link))
        except nv.NVMLError as error:
            if error.value not in (2, 3):  # this GPU has no such link
                raise
            continue
        errors = read_nvml_fact(nv, lambda link=link: _nvlink_errors(nv, gpu, link)) if active else 0  # type: ignore[misc]
        links.append({"link": link, "active": active, "errors": errors})
    return links or missing("this GPU has no NVLink", "not-supported")


def _nvlink_errors(nv: Any, gpu: Any, link: int) -> int:
    return sum(int(nv.nvmlDeviceGetNvLinkErrorCounter(gpu, link, counter)) for counter in range(4))


def read_fabric(nv: Any, gpu: Any) -> Any:
    """Return facts.Fabric."""
    info = nv.c_nvmlGpuFabricInfoV_t()
    nv.nvmlDeviceGetGpuFabricInfoV(gpu, ctypes.byref(info))
    state = _FABRIC_STATES.get(int(info.state), "not_supported")
    if state == "not_supported":
        return missing("this GPU is not part of an NVSwitch fabric", "not-supported")
    status = "success" if not info.status else decode_text(nv.nvmlErrorString(info.status)).lower()
    return {"state": state, "status": status if state == "completed" else "n/a"}


FIXED_FIELDS = frozenset(
    {"minor", "name", "pci_bus_id", "capability", "temperature_slowdown_c", "clock_sm_max_mhz"}
)
"""Those that are the same for as long as the driver stays loaded. Not modes, limits and links: a command of
an administrator changes them."""


def emit_nvml_gpus(nv: Any, emit: Emit, known: Known | None = None) -> None:
    """Emit driver and gpus; `nv` is pynvml. Of GPUs that are known, what cannot change is not read again."""
    try:
        nv.nvmlInit()
    except nv.NVMLError as error:
        excuse = explain_nvml_error(error)
        excuse["missing"] += read_driver_hint() + list_refused_device_files()
        emit("driver", excuse)
        emit("gpus", excuse)
        return
    driver = read_nvml_fact(nv, lambda: _driver(nv))
    emit("driver", driver)
    count = read_nvml_fact(nv, nv.nvmlDeviceGetCount)
    if isinstance(count, dict):
        emit("gpus", count)
        return
    if count == 0:
        refused = list_refused_device_files()
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
    cuda = read_nvml_fact(nv, nv.nvmlSystemGetCudaDriverVersion_v2)
    return {
        "version": decode_text(nv.nvmlSystemGetDriverVersion()),
        "cuda_version": cuda if isinstance(cuda, dict) else "%d.%d" % (cuda // 1000, cuda % 1000 // 10),
        "source": "nvml",
    }


def _gpu(nv: Any, index: int, emit: Emit, known: frozenset[str]) -> None:
    """Emit every field of one GPU as soon as it is known; a lost one keeps its index."""
    handle = read_nvml_fact(nv, lambda: nv.nvmlDeviceGetHandleByIndex(index))
    if isinstance(handle, dict):
        for name, _ in GPU_FIELDS:
            emit("gpus", index, name, handle)
        return
    same = False
    for name, read in GPU_FIELDS:
        if same and name in FIXED_FIELDS:
            continue
        value = read_nvml_fact(nv, lambda read=read: read(nv, handle))  # type: ignore[misc]
        emit("gpus", index, name, value)
        if name == "uuid" and isinstance(value, str) and value in known:
            same = True
            emit("gpus", index, "same", same)


def _mode(nv: Any, gpu: Any) -> Any:
    mode = nv.nvmlDeviceGetComputeMode(gpu)
    return dict(enumerate(COMPUTE_MODES)).get(mode) or missing("NVML gave compute mode %s" % mode)


def _memory(nv: Any, gpu: Any) -> Json:
    try:
        memory = nv.nvmlDeviceGetMemoryInfo(gpu, version=nv.nvmlMemory_v2)
        reserved: Any = int(memory.reserved) >> 20
    except nv.NVMLError as error:
        if error.value not in (2, 3, 13, 25):  # invalid or unsupported argument, function or struct version
            raise
        memory = nv.nvmlDeviceGetMemoryInfo(gpu)
        reserved = missing(NO_RESERVE, "not-supported")
    total, used, free = (int(value) >> 20 for value in (memory.total, memory.used, memory.free))
    return {"total_mib": total, "used_mib": used, "free_mib": free, "reserved_mib": reserved}


GPU_FIELDS: tuple[tuple[str, Callable[[Any, Any], Any]], ...] = (
    # What a launch is decided by comes first: should a later call hang, these have been sent.
    ("uuid", lambda nv, gpu: decode_text(nv.nvmlDeviceGetUUID(gpu))),
    ("minor", lambda nv, gpu: int(nv.nvmlDeviceGetMinorNumber(gpu))),
    ("name", lambda nv, gpu: decode_text(nv.nvmlDeviceGetName(gpu))),
    ("pci_bus_id", lambda nv, gpu: format_bus_id(decode_text(nv.nvmlDeviceGetPciInfo(gpu).busId))),
    ("capability", lambda nv, gpu: [int(part) for part in nv.nvmlDeviceGetCudaComputeCapability(gpu)]),
    ("compute_mode", _mode),
    ("memory", _memory),
    ("processes", read_processes),
    ("mig_enabled", lambda nv, gpu: bool(nv.nvmlDeviceGetMigMode(gpu)[0])),
    ("utilization_percent", lambda nv, gpu: int(nv.nvmlDeviceGetUtilizationRates(gpu).gpu)),
    ("persistence", lambda nv, gpu: bool(nv.nvmlDeviceGetPersistenceMode(gpu))),
    ("recovery_action", read_recovery),
    ("ecc", read_ecc),
    ("remap", read_remap),
    ("retired_pages", read_retired_pages),
    ("temperature_c", lambda nv, gpu: int(nv.nvmlDeviceGetTemperature(gpu, 0))),
    ("temperature_slowdown_c", lambda nv, gpu: int(nv.nvmlDeviceGetTemperatureThreshold(gpu, 1))),
    ("throttle", read_throttle),
    ("power_w", lambda nv, gpu: nv.nvmlDeviceGetPowerUsage(gpu) / 1000.0),
    ("power_limit_w", lambda nv, gpu: nv.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000.0),
    ("clock_sm_mhz", lambda nv, gpu: int(nv.nvmlDeviceGetClockInfo(gpu, 1))),
    ("clock_sm_max_mhz", lambda nv, gpu: int(nv.nvmlDeviceGetMaxClockInfo(gpu, 1))),
    ("pcie", read_pcie),
    ("fabric", read_fabric),
    ("nvlinks", read_nvlinks),
)
"""Every field of facts.Gpu but the index, and how NVML is asked."""
