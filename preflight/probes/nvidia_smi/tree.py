"""Driver and GPUs out of the tree of nvidia-smi's XML, or of its text with keys made alike."""

import re
from typing import Any

from ..fact import Json, missing
from ..gpu_enums import COMPUTE_MODES, NO_RESERVE
from ..pci import format_bus_id
from .capability import find_capability
from .health import parse_ecc, parse_recovery, parse_remap, parse_retired_pages, parse_throttle
from .processes import parse_processes
from .values import (
    CUT,
    NOT_HELD,
    find_text,
    find_value,
    parse_number,
    parse_percent,
    parse_version,
    parse_whole,
    parse_yes,
    reject_wording,
    require_all,
)


def parse_driver(tree: Json, source: str) -> Json:
    """Return facts.Driver out of a tree of nvidia-smi, Missing where it names no driver."""
    version = find_value(tree, parse_version, "kmd_version", "driver_version")
    if isinstance(version, dict):
        return version
    cuda = find_value(tree, parse_version, "cuda_umd_version", "cuda_version")
    return {"version": version, "cuda_version": cuda, "source": source}


def parse_gpus(tree: Json) -> list[Json]:
    """Return the GPUs of a tree of nvidia-smi, in its order, which is NVML's."""
    gpus = tree.get("gpu", [])
    return [
        parse_gpu(gpu, index)
        for index, gpu in enumerate(gpus if isinstance(gpus, list) else [gpus])
        if isinstance(gpu, dict)
    ]


_POWER_DRAWS = tuple(
    "%s/%s" % (group, key)
    for key in ("average_power_draw", "power_draw", "instant_power_draw", "instantaneous_power_draw")
    for group in ("gpu_power_readings", "power_readings")
)


def parse_gpu(gpu: Json, index: int) -> Json:
    """Return facts.Gpu out of one GPU's part of nvidia-smi's XML, or of its text with keys made alike."""
    name = find_value(gpu, str, "product_name")
    return {
        "index": index,
        "uuid": find_value(gpu, str, "uuid", "gpu_uuid"),
        "minor": find_value(gpu, parse_whole, "minor_number"),
        "name": name,
        "pci_bus_id": find_value(gpu, _bus_id, "pci/pci_bus_id", "pci/bus_id", "@id"),
        "capability": find_capability(gpu, name),
        "compute_mode": find_value(gpu, _mode_word, "compute_mode"),
        "memory": _memory(gpu),
        "processes": parse_processes(gpu),
        "utilization_percent": find_value(gpu, parse_percent, "utilization/gpu_util", "utilization/gpu"),
        "persistence": find_value(gpu, parse_yes, "persistence_mode"),
        "mig_enabled": _mig_enabled(gpu),
        "ecc": parse_ecc(gpu),
        "remap": parse_remap(gpu),
        "retired_pages": parse_retired_pages(gpu),
        "temperature_c": find_value(gpu, parse_whole, "temperature/gpu_temp", "temperature/gpu_current_temp"),
        "temperature_slowdown_c": _slowdown_temperature(gpu),
        "throttle": parse_throttle(gpu),
        "power_w": find_value(gpu, parse_number, *_POWER_DRAWS),
        "power_limit_w": find_value(
            gpu,
            parse_number,
            "gpu_power_readings/current_power_limit",
            "gpu_power_readings/gpu_ceiling_power_limit/current_power_limit",
            "power_readings/enforced_power_limit",
            "power_readings/power_limit",
        ),
        "clock_sm_mhz": find_value(gpu, parse_whole, "clocks/sm_clock", "clocks/sm"),
        "clock_sm_max_mhz": find_value(gpu, parse_whole, "max_clocks/sm_clock", "max_clocks/sm"),
        "pcie": parse_pcie(gpu),
        "nvlinks": NOT_HELD,
        "fabric": parse_fabric(gpu),
        "recovery_action": parse_recovery(gpu),
    }


def _slowdown_temperature(gpu: Json) -> Any:
    """Return the temperature of slowdown; of newer GPUs it follows from the margins to it (T.Limit)."""
    paths = (
        ("gpu_temp", "gpu_current_temp"),
        ("gpu_temp_tlimit", "gpu_t_limit_temp"),
        ("gpu_temp_slow_tlimit_threshold", "gpu_slowdown_t_limit_temp"),
    )
    parts = [find_value(gpu, parse_whole, *["temperature/" + name for name in names]) for names in paths]
    if all(isinstance(part, int) for part in parts):
        return parts[0] + parts[1] - parts[2]
    return find_value(
        gpu, parse_whole, "temperature/gpu_temp_slow_threshold", "temperature/gpu_slowdown_temp"
    )


def _bus_id(text: str) -> str:
    """Return a whole bus id; raises ValueError."""
    bus = format_bus_id(text)
    if not re.fullmatch(r"[0-9a-f]{4,16}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", bus):
        raise ValueError(text)
    return bus


def _mode_word(text: str) -> str:
    """Return a compute mode of facts.ComputeMode; raises ValueError."""
    word = text.strip().lower().replace(" ", "_")
    return COMPUTE_MODES[COMPUTE_MODES.index(re.sub(r"^e\._", "exclusive_", word))]


def _mig_enabled(gpu: Json) -> Any:
    """Return whether MIG is on; where it is off until the next reset of the GPU, that it will change."""
    now = find_value(gpu, parse_yes, "mig_mode/current_mig", "mig_mode/current")
    later = find_value(gpu, parse_yes, "mig_mode/pending_mig", "mig_mode/pending")
    if now is False and later is True:
        return missing("MIG is off, and is pending to be on after the next reset of the GPU")
    is_lost = later == NOT_HELD and find_text(gpu, "mig_mode/current_mig") is not None  # XML has both
    if now is False and (is_lost or find_text(gpu, "mig_mode/pending") == CUT):
        return missing("MIG is off, and the file is cut where it says whether it will be on", "not-asked")
    return now


def _memory(gpu: Json) -> Any:
    """Return facts.GpuMemory; "used" includes the reserve where none is printed (drivers before 510).

    The total, or what is in use, follows from the other sizes where a file does not hold it.
    """
    group, old = "fb_memory_usage/", "memory_usage/"  # before driver 319
    names = ("total", "used", "free", "reserved")
    total, used, free, reserved = (find_value(gpu, parse_whole, group + name, old + name) for name in names)
    kept = reserved if isinstance(reserved, int) else 0
    if total == NOT_HELD and isinstance(used, int) and isinstance(free, int):
        total = used + free + kept
    elif used == NOT_HELD and isinstance(total, int) and isinstance(free, int) and free + kept <= total:
        used = total - free - kept
    if isinstance(total, int) and isinstance(used, int) and used > total:
        return reject_wording("%s MiB in use of %s MiB" % (used, total))
    if reserved == NOT_HELD:
        reserved = missing(NO_RESERVE, "not-supported")
    known = {"total_mib": total, "used_mib": used, "free_mib": free, "reserved_mib": reserved}
    if total == NOT_HELD and isinstance(used, int):
        return known
    return next((size for size in (total, used) if isinstance(size, dict)), known)


def parse_pcie(gpu: Json) -> Any:
    """Return facts.PcieLink."""

    def at(xml: str, text: str) -> Any:
        return find_value(gpu, parse_whole, "pci/pci_gpu_link_info/" + xml, "pci/gpu_link_info/" + text)

    return require_all(
        {
            "generation": at("pcie_gen/current_link_gen", "pcie_generation/current"),
            "generation_max": at("pcie_gen/max_link_gen", "pcie_generation/max"),
            "width": at("link_widths/current_link_width", "link_width/current"),
            "width_max": at("link_widths/max_link_width", "link_width/max"),
        }
    )


def parse_fabric(gpu: Json) -> Any:
    """Return facts.Fabric."""
    states = {"completed": "completed", "in progress": "in_progress", "not started": "not_started"}
    state = find_value(gpu, lambda text: states[text.strip().lower()], "fabric/state")
    if isinstance(state, dict):
        return state
    return {"state": state, "status": (find_text(gpu, "fabric/status") or "").lower()}
