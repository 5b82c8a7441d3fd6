"""PCIe, NVLink and the NVSwitch fabric, by NVML."""

import ctypes
from typing import Any

from ..fact import Json, missing
from .answers import decode_text, read_nvml_fact

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
