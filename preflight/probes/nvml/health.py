"""Memory errors, reasons for low clocks, and what a GPU needs to recover, by NVML."""

from typing import Any

from ..fact import Json
from ..gpu_enums import THROTTLE
from .answers import read_nvml_fact


def read_ecc(nv: Any, gpu: Any) -> Json:
    """Return facts.Ecc."""

    def count(kind: int, since: int) -> Any:
        return read_nvml_fact(nv, lambda: int(nv.nvmlDeviceGetTotalEccErrors(gpu, kind, since)))

    return {
        "enabled": bool(nv.nvmlDeviceGetEccMode(gpu)[0]),
        "corrected_volatile": count(0, 0),
        "uncorrected_volatile": count(1, 0),
        "uncorrected_aggregate": count(1, 1),
    }


def read_remap(nv: Any, gpu: Any) -> Json:
    """Return facts.RowRemap."""
    correctable, uncorrectable, pending, failed = nv.nvmlDeviceGetRemappedRows(gpu)
    counts = {"correctable": int(correctable), "uncorrectable": int(uncorrectable)}
    return {**counts, "pending": bool(pending), "failed": bool(failed)}


def read_retired_pages(nv: Any, gpu: Any) -> Json:
    """Return facts.RetiredPages."""
    return {
        "single_bit": len(nv.nvmlDeviceGetRetiredPages(gpu, 0)),
        "double_bit": len(nv.nvmlDeviceGetRetiredPages(gpu, 1)),
        "pending": read_nvml_fact(nv, lambda: bool(nv.nvmlDeviceGetRetiredPagesPendingStatus(gpu))),
    }


def read_throttle(nv: Any, gpu: Any) -> list[str]:
    """Return the active reasons for lower clocks."""
    try:
        mask = int(nv.nvmlDeviceGetCurrentClocksEventReasons(gpu))
    except nv.NVMLError as error:
        if error.value != 13:
            raise
        mask = int(nv.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))  # its name before driver 535
    return [name for bit, name in THROTTLE if mask & bit]


_RECOVERY_ACTIONS = {
    0: "none",
    1: "gpu_reset",
    2: "node_reboot",
    3: "drain_p2p",
    4: "drain_and_reset",
    5: "recover_imex",
    6: "bus_reset",
    7: "system_reboot",
}
_FIELD_RECOVERY_ACTION = 230


def read_recovery(nv: Any, gpu: Any) -> Any:
    """Return what the driver wants done with the GPU."""
    value = nv.nvmlDeviceGetFieldValues(gpu, [_FIELD_RECOVERY_ACTION])[0]
    if value.nvmlReturn:
        raise nv.NVMLError(value.nvmlReturn)
    number = int(value.value.uiVal)
    return _RECOVERY_ACTIONS.get(number, "action_%d" % number)
