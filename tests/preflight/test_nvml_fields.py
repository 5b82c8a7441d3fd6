"""What each question to NVML becomes, from a library that answers all of them, or refuses one."""

import ctypes
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from preflight.probes.nvml.answers import decode_text, explain_nvml_error, read_nvml_fact
from preflight.probes.nvml.gpus import GPU_FIELDS
from preflight.probes.nvml.processes import read_processes

MIB = 1 << 20


def refused(number: int) -> pynvml.NVMLError:
    return pynvml.NVMLError(number)


class FabricInfo(ctypes.Structure):
    """The two fields of NVML's structure that are read."""

    _fields_ = (("state", ctypes.c_uint), ("status", ctypes.c_uint))


def registered(info: Any) -> None:
    info._obj.state, info._obj.status = 3, 0


ANSWERS: dict[str, Any] = {
    "UUID": b"GPU-1",
    "MinorNumber": 3,
    "Name": "NVIDIA L40S",
    "PciInfo": SimpleNamespace(busId=b"00000000:65:00.0"),
    "CudaComputeCapability": (8, 9),
    "ComputeMode": 3,
    "MigMode": (1, 0),
    "UtilizationRates": SimpleNamespace(gpu=7, memory=9),
    "PersistenceMode": 1,
    "FieldValues": lambda fields: [
        SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=fields[0] - 228))
    ],
    "EccMode": (1, 0),
    "RemappedRows": (5, 6, 0, 1),
    "RetiredPagesPendingStatus": 1,
    "CurrentClocksEventReasons": 0x24,
    "CurrentClocksThrottleReasons": 0x1,
    "PowerUsage": 33_500,
    "EnforcedPowerLimit": 350_000,
    "CurrPcieLinkGeneration": 1,
    "MaxPcieLinkGeneration": 4,
    "CurrPcieLinkWidth": 8,
    "MaxPcieLinkWidth": 16,
    "TotalEccErrors": lambda kind, since: 100 * kind + 10 * since + 1,
    "RetiredPages": lambda cause: [0] * (cause + 2),
    "Temperature": lambda sensor: 34 + sensor,
    "TemperatureThreshold": lambda kind: 80 + kind,
    "ClockInfo": lambda clock: 200 + clock,
    "MaxClockInfo": lambda clock: 2500 + clock,
    "NvLinkState": lambda link: link % 2,
    "NvLinkErrorCounter": lambda link, counter: 10**counter * link,
    "GpuFabricInfoV": registered,
    "MemoryInfo": lambda version=1: SimpleNamespace(
        total=46068 * MIB, used=700 * MIB, free=44784 * MIB + 5, reserved=584 * MIB
    ),
    "ComputeRunningProcesses_v3": lambda: [SimpleNamespace(pid=42, usedGpuMemory=300 * MIB)],
    "MPSComputeRunningProcesses_v3": list,
    "GraphicsRunningProcesses_v3": list,
}


def library(refuse: dict[str, int] | None = None, **more: Any) -> Any:
    """Return NVML of a GPU; `refuse` names questions and the error that each gives, `more` other answers."""
    questions = {*ANSWERS, *(refuse or {})}

    def asked(question: str) -> Any:
        def answer(_gpu: object, *given: Any, **named: Any) -> Any:
            if question in (refuse or {}) or (named and "second form" in (refuse or {})):
                raise refused((refuse or {}).get(question, (refuse or {}).get("second form", 0)))
            held = {**ANSWERS, **more}[question]
            return held(*given, **named) if callable(held) else held

        return answer

    return SimpleNamespace(
        NVMLError=pynvml.NVMLError,
        nvmlMemory_v2=2,
        c_nvmlGpuFabricInfoV_t=FabricInfo,
        nvmlLib=SimpleNamespace(),
        nvmlSystemGetProcessName=lambda pid: f"p{pid}".encode(),
        **{f"nvmlDeviceGet{question}": asked(question) for question in questions},
    )


def read(nv: Any) -> dict[str, Any]:
    return {name: read_nvml_fact(nv, lambda read=read: read(nv, object())) for name, read in GPU_FIELDS}  # type: ignore[misc]


def test_every_field_is_what_nvml_answers() -> None:
    assert read(library()) == {
        "uuid": "GPU-1",
        "minor": 3,
        "name": "NVIDIA L40S",
        "pci_bus_id": "0000:65:00.0",
        "capability": [8, 9],
        "compute_mode": "exclusive_process",
        "memory": {"total_mib": 46068, "used_mib": 700, "free_mib": 44784, "reserved_mib": 584},
        "processes": [{"pid": 42, "kind": "compute", "used_mib": 300, "name": "p42"}],
        "mig_enabled": True,
        "utilization_percent": 7,
        "persistence": True,
        "recovery_action": "node_reboot",
        "ecc": {
            "enabled": True,
            "corrected_volatile": 1,
            "uncorrected_volatile": 101,
            "uncorrected_aggregate": 111,
        },
        "remap": {"correctable": 5, "uncorrectable": 6, "pending": False, "failed": True},
        "retired_pages": {"single_bit": 2, "double_bit": 3, "pending": True},
        "temperature_c": 34,
        "temperature_slowdown_c": 81,
        "throttle": ["sw_power_cap", "sw_thermal"],
        "power_w": 33.5,
        "power_limit_w": 350.0,
        "clock_sm_mhz": 201,
        "clock_sm_max_mhz": 2501,
        "pcie": {"generation": 1, "generation_max": 4, "width": 8, "width_max": 16},
        "fabric": {"state": "completed", "status": "success"},
        "nvlinks": [
            {"link": link, "active": bool(link % 2), "errors": 1111 * link if link % 2 else 0}
            for link in range(18)
        ],
    }


REASONS = {
    pynvml.NVML_ERROR_UNINITIALIZED: "not-loaded",
    pynvml.NVML_ERROR_NOT_SUPPORTED: "not-supported",
    pynvml.NVML_ERROR_NO_PERMISSION: "no-permission",
    pynvml.NVML_ERROR_NOT_FOUND: "not-found",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "not-loaded",
    pynvml.NVML_ERROR_TIMEOUT: "timeout",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no-library",
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: "not-supported",
    pynvml.NVML_ERROR_GPU_IS_LOST: "gpu-lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "reset-required",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "library-mismatch",
    pynvml.NVML_ERROR_GPU_NOT_FOUND: "gpu-lost",
}


@pytest.mark.parametrize("number", range(1, 32))
def test_an_error_of_nvml_is_the_reason_that_its_number_means(number: int) -> None:
    reason = explain_nvml_error(refused(number))
    assert reason["code"] == REASONS.get(number, "error")
    assert reason["missing"].startswith("NVML: ")


OLD = {
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
}


@pytest.mark.parametrize("number", range(1, 32))
def test_a_driver_without_the_second_form_of_memory_is_asked_for_the_first(number: int) -> None:
    memory = read(library({"second form": number}))["memory"]
    assert ("total_mib" in memory) is (number in OLD)
    if number in OLD:
        assert memory["used_mib"] == 700
        assert memory["reserved_mib"]["code"] == "not-supported"


@pytest.mark.parametrize("number", range(1, 32))
def test_a_driver_before_535_has_another_name_for_reasons_to_throttle(number: int) -> None:
    throttle = read(library({"CurrentClocksEventReasons": number}))["throttle"]
    known = number == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    assert throttle == ["idle"] if known else "missing" in throttle


@pytest.mark.parametrize("number", range(1, 32))
def test_a_list_of_graphics_processes_may_be_absent_and_no_other(number: int) -> None:
    refuse = {f"GraphicsRunningProcesses{form}": number for form in ("_v3", "_v2")}
    listed = read(library(refuse))["processes"]
    assert isinstance(listed, list) is (number in OLD)
    refuse = {f"ComputeRunningProcesses{form}": number for form in ("_v3", "_v2")}
    assert "missing" in read(library(refuse))["processes"]


@pytest.mark.parametrize("number", range(1, 32))
def test_a_link_that_a_gpu_has_not_is_left_out(number: int) -> None:
    links = read(library({"NvLinkState": number}))["nvlinks"]
    absent = number in (pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert links == explain_nvml_error(refused(number)) or absent
    assert ("no NVLink" in links["missing"]) is absent


@pytest.mark.parametrize(
    ("number", "mode"), [(0, "default"), (1, "exclusive_thread"), (2, "prohibited"), (3, "exclusive_process")]
)
def test_compute_modes_are_those_of_nvml(number: int, mode: str) -> None:
    assert read(library(ComputeMode=number))["compute_mode"] == mode


def test_what_nvml_does_not_name_is_no_mode_and_an_action_by_its_number() -> None:
    odd = [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=9))]
    facts = read(library(ComputeMode=4, FieldValues=odd))
    assert facts["compute_mode"] == {"missing": "NVML gave compute mode 4", "code": "error"}
    assert facts["recovery_action"] == "action_9"
    refusing = [SimpleNamespace(nvmlReturn=pynvml.NVML_ERROR_NOT_SUPPORTED, value=None)]
    assert read(library(FieldValues=refusing))["recovery_action"]["code"] == "not-supported"


@pytest.mark.parametrize(
    ("number", "action"),
    [
        *((0, "none"), (1, "gpu_reset"), (2, "node_reboot"), (3, "drain_p2p"), (4, "drain_and_reset")),
        *((5, "recover_imex"), (6, "bus_reset"), (7, "system_reboot")),
    ],
)
def test_recovery_actions_are_those_of_nvml(number: int, action: str) -> None:
    value = [SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=number))]
    assert read(library(FieldValues=value))["recovery_action"] == action


def test_texts_of_pynvml_are_bytes_or_str() -> None:
    assert [decode_text(b"a\xff"), decode_text("b"), decode_text(3)] == ["a\ufffd", "b", "3"]


def test_a_process_in_two_lists_is_one_client_of_mps_or_one_that_computes() -> None:
    """As driver 580 lists two clients of MPS, and every driver what nvidia-smi prints as C+G."""
    client, desktop = (SimpleNamespace(pid=pid, usedGpuMemory=500 * MIB) for pid in (7, 8))
    nv = library(
        ComputeRunningProcesses_v3=[client, desktop],
        MPSComputeRunningProcesses_v3=[SimpleNamespace(pid=7, usedGpuMemory=None)],
        GraphicsRunningProcesses_v3=[desktop],
    )
    listed = [(each["pid"], each["kind"], each["used_mib"]) for each in read_processes(nv, object())]
    assert listed == [(7, "mps", 500), (8, "compute", 500)]


def test_a_process_of_a_driver_before_450_has_its_pid_and_memory() -> None:
    nv = library({f"{kind}RunningProcesses{form}": 13 for form in ("_v3", "_v2")
                  for kind in ("Compute", "MPSCompute", "Graphics")})  # fmt: skip

    def listed(_gpu: object, count: Any, entries: Any) -> int:
        assert count._obj.value == len(entries) == 1024
        entries[0].pid, entries[0].usedGpuMemory, count._obj.value = 7, 5 * MIB, 1
        return 0

    nv.nvmlLib.nvmlDeviceGetComputeRunningProcesses = listed
    nv.nvmlLib.nvmlDeviceGetGraphicsRunningProcesses = lambda *_: 3
    (process,) = read_processes(nv, object())
    assert process == {"pid": 7, "kind": "compute", "used_mib": 5, "name": "p7"}
