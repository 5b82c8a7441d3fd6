"""Every field of gpu_facts.Gpu, and how NVML is asked."""

from collections.abc import Callable
from typing import Any

from ..fact import Json, missing
from ..gpu_enums import NO_RESERVE
from ..pci import pci_bus_id
from .answers import as_text
from .health import ecc, recovery, remap, retired, throttle
from .links import fabric, nvlinks, pcie
from .processes import processes


def _mode(nv: Any, gpu: Any) -> Any:
    mode = nv.nvmlDeviceGetComputeMode(gpu)
    return _COMPUTE_MODES.get(mode) or missing("NVML gave compute mode %s" % mode)


_COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}


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
    ("uuid", lambda nv, gpu: as_text(nv.nvmlDeviceGetUUID(gpu))),
    ("minor", lambda nv, gpu: int(nv.nvmlDeviceGetMinorNumber(gpu))),
    ("name", lambda nv, gpu: as_text(nv.nvmlDeviceGetName(gpu))),
    ("pci_bus_id", lambda nv, gpu: pci_bus_id(as_text(nv.nvmlDeviceGetPciInfo(gpu).busId))),
    ("capability", lambda nv, gpu: [int(part) for part in nv.nvmlDeviceGetCudaComputeCapability(gpu)]),
    ("compute_mode", _mode),
    ("memory", _memory),
    ("processes", processes),
    ("mig_enabled", lambda nv, gpu: bool(nv.nvmlDeviceGetMigMode(gpu)[0])),
    ("utilization_percent", lambda nv, gpu: int(nv.nvmlDeviceGetUtilizationRates(gpu).gpu)),
    ("persistence", lambda nv, gpu: bool(nv.nvmlDeviceGetPersistenceMode(gpu))),
    ("recovery_action", recovery),
    ("ecc", ecc),
    ("remap", remap),
    ("retired_pages", retired),
    ("temperature_c", lambda nv, gpu: int(nv.nvmlDeviceGetTemperature(gpu, 0))),
    ("temperature_slowdown_c", lambda nv, gpu: int(nv.nvmlDeviceGetTemperatureThreshold(gpu, 1))),
    ("throttle", throttle),
    ("power_w", lambda nv, gpu: nv.nvmlDeviceGetPowerUsage(gpu) / 1000.0),
    ("power_limit_w", lambda nv, gpu: nv.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000.0),
    ("clock_sm_mhz", lambda nv, gpu: int(nv.nvmlDeviceGetClockInfo(gpu, 1))),
    ("clock_sm_max_mhz", lambda nv, gpu: int(nv.nvmlDeviceGetMaxClockInfo(gpu, 1))),
    ("pcie", pcie),
    ("fabric", fabric),
    ("nvlinks", nvlinks),
)
"""Every field of gpu_facts.Gpu but the index, and how NVML is asked."""

FIXED_FIELDS = frozenset(
    {"minor", "name", "pci_bus_id", "capability", "temperature_slowdown_c", "clock_sm_max_mhz"}
)
"""Those that are the same for as long as the driver stays loaded. Not modes, limits and links: a command of
an administrator changes them."""
