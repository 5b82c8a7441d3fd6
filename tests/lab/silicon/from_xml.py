"""Turns a saved `nvidia-smi -q -x` into a profile: what was recorded there is what NVML says here."""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from tests.lab.silicon.families import architecture_of, capability_of, device_id_by_name
from tests.lab.silicon.profile import GpuProfile, ListedProcess, Profile, ProfileError
from tests.lab.silicon.smi_rows import (
    AFTER_THROTTLE,
    ALSO_READ,
    BEFORE_THROTTLE,
    THROTTLE_BITS,
    Row,
    error_code,
)

# The driver branch that brought a function, as NVML's own change log dates them. An older library does not
# export it, which pynvml reports as "Function Not Found".
INTRODUCED: dict[str, int] = {
    "nvmlDeviceGetMigMode": 450,
    "nvmlDeviceGetRemappedRows": 450,
    "nvmlDeviceGetComputeRunningProcesses_v2": 450,
    "nvmlDeviceGetGraphicsRunningProcesses_v2": 450,
    "nvmlDeviceGetMPSComputeRunningProcesses": 460,
    "nvmlDeviceGetMPSComputeRunningProcesses_v2": 460,
    "nvmlDeviceGetMemoryInfo_v2": 510,
    "nvmlDeviceGetComputeRunningProcesses_v3": 510,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 510,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": 510,
    "nvmlDeviceGetGpuFabricInfo": 525,
    "nvmlDeviceGetCurrentClocksEventReasons": 535,
    "nvmlDeviceGetSupportedClocksEventReasons": 535,
    "nvmlDeviceGetGpuFabricInfoV": 545,
    "nvmlDeviceGetC2cModeInfoV": 550,
    "nvmlDeviceGetMarginTemperature": 560,
    "nvmlDeviceGetTemperatureV": 570,
}


def functions_missing(driver_version: str) -> tuple[str, ...]:
    """What the library of this driver does not export; nothing for a version that cannot be read."""
    major = re.match(r"\d+", driver_version)
    if major is None:
        return ()
    return tuple(name for name, since in INTRODUCED.items() if int(major.group()) < since)


def _text(gpu: ET.Element, path: str) -> str:
    found = gpu.find(path)
    return (found.text or "").strip() if found is not None else ""


def _value(gpu: ET.Element, row: Row) -> str | None:
    path, codec, _ = row
    text = _text(gpu, path)
    if codec is None or text in ("", "N/A", "[N/A]"):
        return None
    code = error_code(text)
    return f"!{code}" if code is not None else codec.read(text)


def _throttle(gpu: ET.Element) -> str | None:
    mask, seen = 0, False
    for group in (
        "clocks_event_reasons/clocks_event_reason_",
        "clocks_throttle_reasons/clocks_throttle_reason_",
    ):
        for name, bit in THROTTLE_BITS:
            text = _text(gpu, group + name)
            seen |= text in ("Active", "Not Active")
            mask |= bit if text == "Active" else 0
    return hex(mask) if seen else None


def _number(text: str) -> int | None:
    number = text.split(" ", maxsplit=1)[0]
    return int(number) if number.isdigit() else None


def _process(info: ET.Element) -> ListedProcess:
    return ListedProcess(
        pid=int(_text(info, "pid")),
        kind=_text(info, "type"),
        used_mib=_number(_text(info, "used_memory")),
        name=" ".join(_text(info, "process_name").split()),
        gpu_instance=_number(_text(info, "gpu_instance_id")),
        compute_instance=_number(_text(info, "compute_instance_id")),
    )


def _processes(gpu: ET.Element) -> tuple[tuple[ListedProcess, ...] | None, int]:
    listing = gpu.find("processes")
    if listing is None:
        return None, 0
    code = error_code((listing.text or "").strip())
    if code is not None:
        return (), code
    if (listing.text or "").strip() == "N/A":
        return None, 0
    infos = [info for info in listing.findall("process_info") if _text(info, "pid").isdigit()]
    return tuple(_process(info) for info in infos), 0


def _split_sram(gpu: ET.Element) -> Iterator[tuple[str, str]]:
    """Schema v13 tells parity from SECDED; NVML counts both as uncorrectable errors of the SRAM."""
    for when in ("volatile", "aggregate"):
        kinds = ("parity", "secded")
        counts = [_text(gpu, f"ecc_errors/{when}/sram_uncorrectable_{kind}") for kind in kinds]
        if all(count.isdigit() for count in counts):
            yield f"ecc.{when}.uncorrected.sram", str(sum(map(int, counts)))


def _family(values: dict[str, str]) -> Iterator[tuple[str, str]]:
    """What the XML does not hold, from the family of the PCI device id."""
    device = int(values.get("pci_device_id", "0"), 0) >> 16 or device_id_by_name(values.get("name", ""))
    architecture = architecture_of(device)
    if architecture and "architecture" not in values:
        yield "architecture", str(architecture)
    capability = capability_of(device)
    if capability is not None:
        yield "capability.major", str(capability[0])
        yield "capability.minor", str(capability[1])


def _migs(gpu: ET.Element, uuid: str, name: str) -> Iterator[GpuProfile]:
    for mig in gpu.findall("mig_devices/mig_device"):
        values = {"name": f"{name} MIG", "uuid": f"MIG-{uuid}-{_text(mig, 'index')}"}
        values["gpu_instance"] = _text(mig, "gpu_instance_id")
        values["compute_instance"] = _text(mig, "compute_instance_id")
        for part in ("total", "reserved", "used", "free"):
            number = _number(_text(mig, f"fb_memory_usage/{part}"))
            if number is not None:
                values[f"memory.{part}_mib"] = str(number)
        yield GpuProfile(values=values)


def _gpu(gpu: ET.Element, index: int) -> GpuProfile:
    values: dict[str, str] = {}
    for row in (*BEFORE_THROTTLE, *AFTER_THROTTLE, *ALSO_READ):
        if row[2] in values:
            continue
        value = _value(gpu, row)
        if value is not None:
            values[row[2]] = value
    values |= dict(_split_sram(gpu))
    throttle = _throttle(gpu)
    if throttle is not None:
        values |= {"throttle_reasons": throttle, "throttle_supported": "0x1ff"}
    values.setdefault("pci_bus_id", gpu.get("id", ""))
    values.setdefault("minor_number", str(index))
    values |= {key: value for key, value in _family(values) if key not in values}
    if any(key.startswith("utilization.") for key in values):
        values["utilization.period_us"] = "167000"
    processes, error = _processes(gpu)
    migs = tuple(_migs(gpu, values.get("uuid", ""), values.get("name", "")))
    return GpuProfile(values=values, processes=processes, processes_error=error, migs=migs)


def _cuda_version(text: str) -> str | None:
    match = re.fullmatch(r"(\d+)\.(\d+)", text)
    return str(int(match.group(1)) * 1000 + int(match.group(2)) * 10) if match else None


def profile_from_xml(text: str, name: str = "recorded") -> Profile:
    """A profile that says what the XML says. Raises ProfileError for what is not nvidia-smi's XML."""
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ProfileError(f"{name} is not XML: {error}") from error
    if root.tag != "nvidia_smi_log":
        raise ProfileError(f"{name} is not from nvidia-smi -q -x: its root is <{root.tag}>")
    driver = _text(root, "driver_version")
    cuda = _cuda_version(_text(root, "cuda_version"))
    system = {"driver_version": driver} if driver else {}
    if cuda is not None:
        system["cuda_version"] = cuda
    if driver:
        system["nvml_version"] = f"{int(cuda or 11000) // 1000}.{driver}"
    gpus = tuple(_gpu(gpu, index) for index, gpu in enumerate(root.findall("gpu")))
    return Profile(name=name, system=system, gpus=gpus, missing=functions_missing(driver))
