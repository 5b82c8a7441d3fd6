"""What `nvidia-smi -q -x` prints, read by nothing of gpulaunch's: it is what the agent is compared with."""

import re
from collections.abc import Sequence
from typing import TypeAlias
from xml.etree import ElementTree as ET

Element: TypeAlias = ET.Element

# What no test may change, by path under <gpu>; several spellings are those of several drivers.
SETTINGS = (
    "persistence_mode",
    "compute_mode",
    "accounting_mode",
    "mig_mode/current_mig",
    "mig_mode/pending_mig",
    "ecc_mode/current_ecc",
    "ecc_mode/pending_ecc",
    "gpu_power_readings/requested_power_limit",
    "gpu_power_readings/current_power_limit",
    "power_readings/power_limit",
    "power_readings/enforced_power_limit",
    "applications_clocks/graphics_clock",
    "applications_clocks/mem_clock",
    "gpu_operation_mode/current_gom",
    "gpu_virtualization_mode/virtualization_mode",
)


def gpus(xml: str) -> list[Element]:
    """Return the <gpu> elements, in nvidia-smi's order."""
    return ET.fromstring(xml).findall("gpu")


def text(element: Element, *paths: str) -> str:
    """Return the text at the first path that holds a value, "" without one (N/A counts as none)."""
    for path in paths:
        found = (element.findtext(path) or "").strip()
        if found and found.strip("[]") not in ("N/A", "Not Supported"):
            return found
    return ""


def number(element: Element, *paths: str) -> float | None:
    """Return the number that a text starts with ("81559 MiB", "16x")."""
    match = re.match(r"-?\d+(\.\d+)?", text(element, *paths))
    return float(match.group()) if match else None


def settings(xml: str) -> dict[str, str]:
    """Return all settings of all GPUs, by "UUID path"."""
    found = {}
    for gpu in gpus(xml):
        for path in SETTINGS:
            value = (gpu.findtext(path) or "").strip()
            if value:
                found[f"{text(gpu, 'uuid')} {path}"] = value
    return found


def used_mib(xml: str, uuid: str) -> float:
    """Return the memory that a GPU's processes and driver use."""
    return number(by_uuid(xml, uuid), "fb_memory_usage/used") or 0.0


def pids(xml: str, uuid: str) -> set[int]:
    """Return the processes that the driver lists on a GPU."""
    found = by_uuid(xml, uuid).findall("processes/process_info/pid")
    return {int(pid.text or 0) for pid in found}


def by_uuid(xml: str, uuid: str) -> Element:
    """Return one GPU. Raises LookupError."""
    for gpu in gpus(xml):
        if text(gpu, "uuid") == uuid:
            return gpu
    raise LookupError(uuid)


def names(xml: str) -> Sequence[str]:
    """Return the products' names."""
    return [text(gpu, "product_name") for gpu in gpus(xml)]
