"""Which NVML call must answer with which key of a profile."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tests.lab.silicon.ask import Call
from tests.lab.silicon.profile import GpuProfile, Profile

NOT_SUPPORTED = 3
FUNCTION_NOT_FOUND = 13


class Asked(NamedTuple):
    """A call, and the keys whose values its answer holds, in the answer's own order or by field name."""

    call: Call
    keys: Mapping[str, str] | str  # {field or position: key}, or the one key

    def symbol(self) -> str:
        """The library's function behind the call."""
        symbols = {
            "nvmlDeviceGetMPSComputeRunningProcesses": "nvmlDeviceGetMPSComputeRunningProcesses_v3",
            "field": "nvmlDeviceGetFieldValues",
        }
        return symbols.get(self.call[0], self.call[0])


def _one(function: str, key: str, *arguments: Any) -> Asked:
    return Asked((function, list(arguments)), key)


TEXTS = (
    _one("nvmlDeviceGetName", "name"),
    _one("nvmlDeviceGetUUID", "uuid"),
    _one("nvmlDeviceGetSerial", "serial"),
    _one("nvmlDeviceGetVbiosVersion", "vbios_version"),
    _one("nvmlDeviceGetBoardPartNumber", "board_part_number"),
    _one("nvmlDeviceGetInforomImageVersion", "inforom_version"),
    _one("nvmlDeviceGetGspFirmwareVersion", "gsp_firmware"),
)

NUMBERS = (
    _one("nvmlDeviceGetMinorNumber", "minor_number"),
    _one("nvmlDeviceGetBrand", "brand"),
    _one("nvmlDeviceGetArchitecture", "architecture"),
    _one("nvmlDeviceGetNumGpuCores", "cores"),
    _one("nvmlDeviceGetMemoryBusWidth", "memory_bus_width"),
    _one("nvmlDeviceGetPersistenceMode", "persistence_mode"),
    _one("nvmlDeviceGetDisplayMode", "display_mode"),
    _one("nvmlDeviceGetDisplayActive", "display_active"),
    _one("nvmlDeviceGetComputeMode", "compute_mode"),
    _one("nvmlDeviceGetAccountingMode", "accounting_mode"),
    _one("nvmlDeviceGetFanSpeed", "fan_percent"),
    _one("nvmlDeviceGetPerformanceState", "performance_state"),
    _one("nvmlDeviceGetPowerUsage", "power_mw"),
    _one("nvmlDeviceGetEnforcedPowerLimit", "power_limit_mw"),
    _one("nvmlDeviceGetPowerManagementLimit", "power_limit_requested_mw"),
    _one("nvmlDeviceGetPowerManagementDefaultLimit", "power_limit_default_mw"),
    _one("nvmlDeviceGetCurrPcieLinkGeneration", "pcie.generation"),
    _one("nvmlDeviceGetMaxPcieLinkGeneration", "pcie.generation_max"),
    _one("nvmlDeviceGetCurrPcieLinkWidth", "pcie.width"),
    _one("nvmlDeviceGetMaxPcieLinkWidth", "pcie.width_max"),
    _one("nvmlDeviceGetPcieReplayCounter", "pcie.replays"),
    _one("nvmlDeviceGetCurrentClocksThrottleReasons", "throttle_reasons"),
    _one("nvmlDeviceGetCurrentClocksEventReasons", "throttle_reasons"),
    _one("nvmlDeviceGetTemperature", "temperature.gpu_c", 0),
    _one("nvmlDeviceGetTemperatureV", "temperature.gpu_c", 0),
    _one("nvmlDeviceGetTemperatureThreshold", "temperature.shutdown_c", 0),
    _one("nvmlDeviceGetTemperatureThreshold", "temperature.slowdown_c", 1),
    _one("nvmlDeviceGetTemperatureThreshold", "temperature.memory_max_c", 2),
    _one("nvmlDeviceGetTemperatureThreshold", "temperature.gpu_max_c", 3),
    _one("nvmlDeviceGetMarginTemperature", "temperature.margin_c"),
    _one("nvmlDeviceGetRetiredPagesPendingStatus", "retired.pending"),
    *(
        _one(f"nvmlDeviceGet{infix}ClockInfo", f"{prefix}.{name}_mhz", at)
        for infix, prefix in (("", "clock"), ("Max", "clock_max"))
        for at, name in enumerate(("graphics", "sm", "memory", "video"))
    ),
    *(
        _one("field", key, number)
        for number, key in (
            (1, "ecc.enabled"),
            (82, "temperature.memory_c"),
            (91, "nvlink.count"),
            (144, "remap.pending"),
            (186, "power_instant_mw"),
            (193, "temperature.shutdown_margin_c"),
            (194, "temperature.slowdown_margin_c"),
            (230, "recovery_action"),
        )
    ),
)

GROUPS = (
    Asked(("nvmlDeviceGetCudaComputeCapability", []), {"0": "capability.major", "1": "capability.minor"}),
    Asked(
        ("nvmlDeviceGetPowerManagementLimitConstraints", []),
        {"0": "power_limit_min_mw", "1": "power_limit_max_mw"},
    ),
    Asked(("nvmlDeviceGetEncoderUtilization", []), {"0": "utilization.encoder"}),
    Asked(("nvmlDeviceGetUtilizationRates", []), {"gpu": "utilization.gpu", "memory": "utilization.memory"}),
    Asked(("nvmlDeviceGetEccMode", []), {"0": "ecc.enabled", "1": "ecc.pending"}),
    Asked(("nvmlDeviceGetMigMode", []), {"0": "mig.enabled", "1": "mig.pending"}),
    Asked(
        ("nvmlDeviceGetRemappedRows", []),
        {"0": "remap.correctable", "1": "remap.uncorrectable", "2": "remap.pending", "3": "remap.failed"},
    ),
    Asked(
        ("nvmlDeviceGetRowRemapperHistogram", []),
        {"max": "remap.banks_max", "high": "remap.banks_high", "none": "remap.banks_none"},
    ),
    Asked(
        ("nvmlDeviceGetPciInfo", []),
        {"pciDeviceId": "pci_device_id", "pciSubSystemId": "pci_subsystem_id", "busId": "pci_bus_id"},
    ),
)
PCI_IDS = ("pci_device_id", "pci_subsystem_id")  # fields of a struct that has a bus id anyway
ALL = (*TEXTS, *NUMBERS, *GROUPS)


def expected(profile: Profile, gpu: GpuProfile, question: Asked) -> Any:
    """What the profile says that the call answers: a value, {field: value}, or an error code as int."""
    if question.symbol() in profile.missing:
        return {"error": FUNCTION_NOT_FOUND}
    names = {"": question.keys} if isinstance(question.keys, str) else question.keys
    values: dict[str, Any] = {}
    for field, key in names.items():
        value = gpu.values.get(key, "0" if key in PCI_IDS else "!3")
        if value.startswith("!"):
            return {"error": int(value[1:])}
        values[field] = value if question in TEXTS or key == "pci_bus_id" else int(value, 0)
    return values[""] if isinstance(question.keys, str) else values


def answered(answer: Any, question: Asked) -> Any:
    """An answer in the shape of `expected`."""
    if isinstance(answer, dict) and "error" in answer:
        return {"error": answer["error"]}
    if isinstance(question.keys, str):
        return answer
    by_name = answer if isinstance(answer, dict) else {str(at): value for at, value in enumerate(answer)}
    return {field: by_name[field] for field in question.keys}


def differences(profile: Profile, answers: list[Any]) -> Iterator[str]:
    """Every call about every GPU whose answer is not the profile's, in words."""
    for index, gpu in enumerate(profile.gpus):
        if isinstance(answers[index], dict):
            if answers[index]["error"] != 15 or "nvmlDeviceGetHandleByIndex" not in gpu.calls:
                yield f"gpu{index}: no handle: {answers[index]}"
            continue
        for question, answer in zip(ALL, answers[index], strict=True):
            wanted, got = expected(profile, gpu, question), answered(answer, question)
            if wanted != got:
                yield f"gpu{index}: {question.call}: {got!r}, the profile says {wanted!r}"
