"""The table between a profile's keys and the elements of `nvidia-smi -q -x`, read in both directions."""

from collections.abc import Callable
from typing import NamedTuple

ABSENT = "N/A"
ERROR_WORDS = {
    4: "Insufficient Permissions",
    6: "Not Found",
    15: "GPU is lost",
    16: "GPU requires reset",
    26: "Requested functionality has been deprecated",
    999: "Unknown Error",
}
NVML_WORDS = {
    0: "Success",
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    6: "Not Found",
    9: "Driver Not Loaded",
    10: "Timeout",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires reset",
    17: "GPU access blocked by the operating system",
    18: "Driver/library version mismatch",
    19: "In use by another client",
    20: "Insufficient Memory",
    27: "System is not ready for the request",
    28: "GPU not found",
    999: "Unknown Error",
}


class Codec(NamedTuple):
    """How a key's value is printed, and how the printed text is read; None is "not this"."""

    show: Callable[[str], str]
    read: Callable[[str], str | None]


def _unit(unit: str) -> Codec:
    def read(text: str) -> str | None:
        number, _, _ = text.partition(" ")
        return number if number.lstrip("-").isdigit() else None

    return Codec(lambda value: f"{int(value, 0)} {unit}", read)


def _words(table: dict[str, str]) -> Codec:
    back = {words: value for value, words in reversed(list(table.items()))}
    return Codec(lambda value: table.get(str(int(value, 0)), "Unknown"), back.get)


def _read_watts(text: str) -> str | None:
    number, _, unit = text.partition(" ")
    if unit != "W":
        return None
    whole, _, fraction = number.partition(".")
    return str(int(whole) * 1000 + int((fraction + "000")[:3]))


def _read_hex(text: str) -> str | None:
    try:
        return hex(int(text, 16))
    except ValueError:
        return None


def _read_integer(text: str) -> str | None:
    return text if text.isdigit() else None


TEXT = Codec(str, lambda text: text or None)
INTEGER = Codec(lambda value: str(int(value, 0)), _read_integer)
MIB = _unit("MiB")
PERCENT = _unit("%")
CELSIUS = _unit("C")
MHZ = _unit("MHz")
BANKS = _unit("bank(s)")
WATTS = Codec(lambda value: f"{int(value) / 1000:.2f} W", _read_watts)
WIDTH = Codec(lambda value: value + "x", lambda text: _read_integer(text.rstrip("x")))
PSTATE = Codec(lambda value: "P" + value, lambda text: _read_integer(text.lstrip("P")))
DEVICE_ID = Codec(lambda value: f"{int(value, 0):08X}", _read_hex)
HEX = Codec(lambda value: hex(int(value, 0)), _read_hex)
ENABLED = _words({"1": "Enabled", "0": "Disabled"})
YES = _words({"1": "Yes", "0": "No"})
COMPUTE_MODE = _words({"0": "Default", "1": "Exclusive_Thread", "2": "Prohibited", "3": "Exclusive_Process"})
BRAND = _words(
    {
        "0": "Unknown",
        "1": "Quadro",
        "2": "Tesla",
        "3": "NVS",
        "5": "GeForce",
        "6": "Titan",
        "12": "Quadro RTX",
        "13": "NVIDIA RTX",
        "14": "NVIDIA",
        "16": "Titan RTX",
    }
)
ARCHITECTURE = _words(
    {
        "2": "Kepler",
        "3": "Maxwell",
        "4": "Pascal",
        "5": "Volta",
        "6": "Turing",
        "7": "Ampere",
        "8": "Ada Lovelace",
        "9": "Hopper",
        "10": "Blackwell",
    }
)
FABRIC_STATE = _words({"1": "Not Started", "2": "In Progress", "3": "Completed"})
FABRIC_STATUS = _words({str(code): words for code, words in NVML_WORDS.items()})
FABRIC_SUMMARY = _words({"1": "Healthy", "2": "Unhealthy", "3": "Limited Capacity"})
RECOVERY = _words(
    {
        "0": "None",
        "1": "Reset",
        "2": "Reboot",
        "3": "Drain P2P",
        "4": "Drain and Reset",
        "5": "Recover IMEX Domain",
        "6": "Bus Reset",
        "7": "System Reboot",
    }
)

Row = tuple[str, Codec | None, str]
"""Path under <gpu>, how to print it, key; no codec: the key is the constant text of the element."""

IDENTITY: tuple[Row, ...] = (
    ("product_name", TEXT, "name"),
    ("product_brand", BRAND, "brand"),
    ("product_architecture", ARCHITECTURE, "architecture"),
    ("display_mode", ENABLED, "display_mode"),
    ("display_active", ENABLED, "display_active"),
    ("persistence_mode", ENABLED, "persistence_mode"),
    ("addressing_mode", TEXT, "addressing_mode"),
    ("mig_mode/current_mig", ENABLED, "mig.enabled"),
    ("mig_mode/pending_mig", ENABLED, "mig.pending"),
    ("mig_devices", None, "None"),
    ("accounting_mode", ENABLED, "accounting_mode"),
    ("accounting_mode_buffer_size", None, "4000"),
    ("driver_model/current_dm", None, ABSENT),
    ("driver_model/pending_dm", None, ABSENT),
    ("serial", TEXT, "serial"),
    ("uuid", TEXT, "uuid"),
    ("minor_number", INTEGER, "minor_number"),
    ("vbios_version", TEXT, "vbios_version"),
    ("multigpu_board", YES, "multi_gpu_board"),
    ("board_id", HEX, "board_id"),
    ("board_part_number", TEXT, "board_part_number"),
    ("inforom_version/img_version", TEXT, "inforom_version"),
    ("gsp_firmware_version", TEXT, "gsp_firmware"),
    ("gpu_reset_status/reset_required", YES, "reset_required"),
    ("gpu_reset_status/drain_and_reset_recommended", YES, "drain_and_reset_recommended"),
    ("gpu_recovery_action", RECOVERY, "recovery_action"),
)

PCI: tuple[Row, ...] = (
    ("pci/pci_device_id", DEVICE_ID, "pci_device_id"),
    ("pci/pci_bus_id", TEXT, "pci_bus_id"),
    ("pci/pci_sub_system_id", DEVICE_ID, "pci_subsystem_id"),
    ("pci/pci_gpu_link_info/pcie_gen/max_link_gen", INTEGER, "pcie.generation_max"),
    ("pci/pci_gpu_link_info/pcie_gen/current_link_gen", INTEGER, "pcie.generation"),
    ("pci/pci_gpu_link_info/pcie_gen/max_device_link_gen", INTEGER, "pcie.generation_device_max"),
    ("pci/pci_gpu_link_info/link_widths/max_link_width", WIDTH, "pcie.width_max"),
    ("pci/pci_gpu_link_info/link_widths/current_link_width", WIDTH, "pcie.width"),
    ("pci/replay_counter", INTEGER, "pcie.replays"),
    ("fan_speed", PERCENT, "fan_percent"),
    ("performance_state", PSTATE, "performance_state"),
)

THROTTLE_BITS: tuple[tuple[str, int], ...] = (
    ("gpu_idle", 0x1),
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("display_clocks_setting", 0x100),
)

MEMORY: tuple[Row, ...] = (
    ("fb_memory_usage/total", MIB, "memory.total_mib"),
    ("fb_memory_usage/reserved", MIB, "memory.reserved_mib"),
    ("fb_memory_usage/used", MIB, "memory.used_mib"),
    ("fb_memory_usage/free", MIB, "memory.free_mib"),
    ("bar1_memory_usage/total", MIB, "bar1.total_mib"),
    ("bar1_memory_usage/used", MIB, "bar1.used_mib"),
    ("compute_mode", COMPUTE_MODE, "compute_mode"),
    ("utilization/gpu_util", PERCENT, "utilization.gpu"),
    ("utilization/memory_util", PERCENT, "utilization.memory"),
    ("utilization/encoder_util", PERCENT, "utilization.encoder"),
    ("utilization/decoder_util", PERCENT, "utilization.decoder"),
    ("utilization/jpeg_util", PERCENT, "utilization.jpeg"),
    ("utilization/ofa_util", PERCENT, "utilization.ofa"),
    ("ecc_mode/current_ecc", ENABLED, "ecc.enabled"),
    ("ecc_mode/pending_ecc", ENABLED, "ecc.pending"),
)

ECC: tuple[Row, ...] = tuple(
    (f"ecc_errors/{when}/{place}_{element}", INTEGER, f"ecc.{when}.{kind}.{place}")
    for when in ("volatile", "aggregate")
    for place in ("sram", "dram")
    for element, kind in (("correctable", "corrected"), ("uncorrectable", "uncorrected"))
)

OLD_PLACES = (
    ("device_memory", "dram"),
    ("register_file", "register"),
    ("l1_cache", "l1"),
    ("l2_cache", "l2"),
    ("texture_memory", "texture"),
    ("texture_shm", "texture_shm"),
    ("cbu", "cbu"),
    ("total", "total"),
)
OLD_ECC: tuple[Row, ...] = tuple(
    (f"ecc_errors/{when}/{bits}/{element}", INTEGER, f"ecc.{when}.{kind}.{place}")
    for when in ("volatile", "aggregate")
    for bits, kind in (("single_bit", "corrected"), ("double_bit", "uncorrected"))
    for element, place in OLD_PLACES
)

HEALTH: tuple[Row, ...] = (
    ("retired_pages/multiple_single_bit_retirement/retired_count", INTEGER, "retired.single_bit"),
    ("retired_pages/double_bit_retirement/retired_count", INTEGER, "retired.double_bit"),
    ("retired_pages/pending_retirement", YES, "retired.pending"),
    ("remapped_rows/remapped_row_corr", INTEGER, "remap.correctable"),
    ("remapped_rows/remapped_row_unc", INTEGER, "remap.uncorrectable"),
    ("remapped_rows/remapped_row_pending", YES, "remap.pending"),
    ("remapped_rows/remapped_row_failure", YES, "remap.failed"),
    ("remapped_rows/row_remapper_histogram/row_remapper_histogram_max", BANKS, "remap.banks_max"),
    ("remapped_rows/row_remapper_histogram/row_remapper_histogram_high", BANKS, "remap.banks_high"),
    ("remapped_rows/row_remapper_histogram/row_remapper_histogram_partial", BANKS, "remap.banks_partial"),
    ("remapped_rows/row_remapper_histogram/row_remapper_histogram_low", BANKS, "remap.banks_low"),
    ("remapped_rows/row_remapper_histogram/row_remapper_histogram_none", BANKS, "remap.banks_none"),
    ("temperature/gpu_temp", CELSIUS, "temperature.gpu_c"),
    ("temperature/gpu_temp_tlimit", CELSIUS, "temperature.margin_c"),
    ("temperature/gpu_temp_max_threshold", CELSIUS, "temperature.shutdown_c"),
    ("temperature/gpu_temp_slow_threshold", CELSIUS, "temperature.slowdown_c"),
    ("temperature/gpu_temp_max_gpu_threshold", CELSIUS, "temperature.gpu_max_c"),
    ("temperature/memory_temp", CELSIUS, "temperature.memory_c"),
    ("temperature/gpu_temp_max_mem_threshold", CELSIUS, "temperature.memory_max_c"),
)

MARGINS: tuple[Row, ...] = (
    ("temperature/gpu_temp_max_tlimit_threshold", CELSIUS, "temperature.shutdown_margin_c"),
    ("temperature/gpu_temp_slow_tlimit_threshold", CELSIUS, "temperature.slowdown_margin_c"),
    ("temperature/gpu_temp_max_gpu_tlimit_threshold", CELSIUS, "temperature.gpu_max_margin_c"),
    ("temperature/gpu_temp_max_mem_tlimit_threshold", CELSIUS, "temperature.memory_max_margin_c"),
)

POWER: tuple[Row, ...] = (
    ("gpu_power_readings/power_state", PSTATE, "performance_state"),
    ("gpu_power_readings/power_draw", WATTS, "power_mw"),
    ("gpu_power_readings/current_power_limit", WATTS, "power_limit_mw"),
    ("gpu_power_readings/requested_power_limit", WATTS, "power_limit_requested_mw"),
    ("gpu_power_readings/default_power_limit", WATTS, "power_limit_default_mw"),
    ("gpu_power_readings/min_power_limit", WATTS, "power_limit_min_mw"),
    ("gpu_power_readings/max_power_limit", WATTS, "power_limit_max_mw"),
)

CLOCKS: tuple[Row, ...] = tuple(
    (f"{group}/{element}_clock", MHZ, f"{prefix}.{clock}_mhz")
    for group, prefix in (
        ("clocks", "clock"),
        ("applications_clocks", "clock_application"),
        ("default_applications_clocks", "clock_default"),
        ("max_clocks", "clock_max"),
    )
    for element, clock in (("graphics", "graphics"), ("sm", "sm"), ("mem", "memory"), ("video", "video"))
    if prefix in ("clock", "clock_max") or clock in ("graphics", "memory")
)

FABRIC: tuple[Row, ...] = (
    ("fabric/state", FABRIC_STATE, "fabric.state"),
    ("fabric/status", FABRIC_STATUS, "fabric.status"),
    ("fabric/cliqueId", INTEGER, "fabric.clique"),
    ("fabric/clusterUuid", TEXT, "fabric.cluster_uuid"),
    ("fabric/health/summary", FABRIC_SUMMARY, "fabric.health_summary"),
)

BEFORE_THROTTLE = (*IDENTITY, *PCI)
AFTER_THROTTLE = (*MEMORY, *ECC, *HEALTH, *MARGINS, *POWER, *CLOCKS, *FABRIC)

# Spellings of other schema versions, tried in this order where the usual one gave nothing.
ALSO_READ: tuple[Row, ...] = (
    ("power_readings/power_draw", WATTS, "power_mw"),
    ("gpu_power_readings/average_power_draw", WATTS, "power_mw"),
    ("gpu_power_readings/instant_power_draw", WATTS, "power_mw"),
    ("gpu_power_readings/average_power_draw", WATTS, "power_average_mw"),
    ("gpu_power_readings/instant_power_draw", WATTS, "power_instant_mw"),
    ("power_readings/enforced_power_limit", WATTS, "power_limit_mw"),
    ("power_readings/power_limit", WATTS, "power_limit_requested_mw"),
    ("power_readings/default_power_limit", WATTS, "power_limit_default_mw"),
    ("power_readings/min_power_limit", WATTS, "power_limit_min_mw"),
    ("power_readings/max_power_limit", WATTS, "power_limit_max_mw"),
    ("retired_pages/pending_blacklist", YES, "retired.pending"),
    ("retired_pages/pending_retirement", YES, "retired.pending"),
    *OLD_ECC,
)


def error_code(words: str) -> int | None:
    """The NVML error that nvidia-smi prints with these words in place of a value."""
    bare = words.strip("[]")
    for code, known in ERROR_WORDS.items():
        if bare == known:
            return code
    return 999 if bare in ("ERR!", "Unknown error") else None
