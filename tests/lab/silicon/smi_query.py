"""`nvidia-smi --query-gpu=FIELDS --format=csv`: the fields that launchers and monitors ask for."""

from collections.abc import Mapping, Sequence

from tests.lab.silicon.smi_rows import (
    ABSENT,
    CELSIUS,
    COMPUTE_MODE,
    ENABLED,
    ERROR_WORDS,
    INTEGER,
    MHZ,
    MIB,
    PERCENT,
    PSTATE,
    TEXT,
    WATTS,
    Codec,
)

Section = Mapping[str, str]
_PREFIX = "--query-gpu="

FIELDS: dict[str, tuple[Codec, str]] = {
    "name": (TEXT, "name"),
    "uuid": (TEXT, "uuid"),
    "serial": (TEXT, "serial"),
    "vbios_version": (TEXT, "vbios_version"),
    "pci.bus_id": (TEXT, "pci_bus_id"),
    "memory.total": (MIB, "memory.total_mib"),
    "memory.reserved": (MIB, "memory.reserved_mib"),
    "memory.used": (MIB, "memory.used_mib"),
    "memory.free": (MIB, "memory.free_mib"),
    "compute_mode": (COMPUTE_MODE, "compute_mode"),
    "utilization.gpu": (PERCENT, "utilization.gpu"),
    "utilization.memory": (PERCENT, "utilization.memory"),
    "temperature.gpu": (CELSIUS, "temperature.gpu_c"),
    "power.draw": (WATTS, "power_mw"),
    "power.limit": (WATTS, "power_limit_mw"),
    "clocks.sm": (MHZ, "clock.sm_mhz"),
    "clocks.mem": (MHZ, "clock.memory_mhz"),
    "pstate": (PSTATE, "performance_state"),
    "persistence_mode": (ENABLED, "persistence_mode"),
    "mig.mode.current": (ENABLED, "mig.enabled"),
    "pcie.link.gen.current": (INTEGER, "pcie.generation"),
    "pcie.link.width.current": (INTEGER, "pcie.width"),
}
"""Field of --query-gpu: how its value is printed, and its key in the state."""

ALIASES = {"gpu_name": "name", "gpu_uuid": "uuid", "gpu_bus_id": "pci.bus_id", "gpu_serial": "serial"}
_UNITLESS = {"temperature.gpu"}  # nvidia-smi prints the degrees without their unit
_BRACKETED = f"[{ABSENT}]"


class BadQuery(Exception):
    """A query that nvidia-smi refuses; its words, and exit status 2."""


def parse(arguments: Sequence[str]) -> tuple[list[str], frozenset[str]] | None:
    """Return fields and format words, or None where this is no such query. Raises BadQuery."""
    queries = [word for word in arguments if word.startswith(_PREFIX)]
    formats = [word for word in arguments if word.startswith("--format=")]
    if not queries or len(queries) + len(formats) != len(arguments):
        return None
    words = frozenset(formats[-1].partition("=")[2].split(",")) if formats else frozenset()
    if "csv" not in words:
        raise BadQuery('"--format=" is not specified or invalid.')
    fields = [field.strip() for field in queries[-1].removeprefix(_PREFIX).split(",")]
    for field in fields:
        if ALIASES.get(field, field) not in {*FIELDS, "count", "index", "driver_version", "compute_cap"}:
            raise BadQuery(f'Field "{field}" is not a valid field to query.')
    return fields, words


def rows(
    fields: Sequence[str], words: frozenset[str], gpus: Sequence[tuple[int, Section]], system: Section
) -> str:
    """Return the CSV, one line per GPU, below its header unless that was declined."""
    lines = [] if "noheader" in words else [", ".join(_title(field) for field in fields)]
    for index, section in gpus:
        host = {
            "count": str(len(gpus)),
            "index": str(index),
            "driver_version": system.get("driver_version", _BRACKETED),
            "compute_cap": _capability(section),
        }
        cells = [host[field] if field in host else _cell(field, section) for field in fields]
        lines.append(", ".join(_bare(cell) if "nounits" in words else cell for cell in cells))
    return "\n".join(lines) + "\n"


def _title(field: str) -> str:
    unit = {"memory": " [MiB]", "utilization": " [%]", "power": " [W]", "clocks": " [MHz]"}
    return field + unit.get(field.partition(".")[0], "")


def _capability(section: Section) -> str:
    major, minor = section.get("capability.major"), section.get("capability.minor")
    return f"{major}.{minor}" if major and minor else _BRACKETED


def _cell(field: str, section: Section) -> str:
    name = ALIASES.get(field, field)
    codec, key = FIELDS[name]
    value = section.get(key)
    if value is None or value == "!3":
        return _BRACKETED
    if value.startswith("!"):
        return f"[{ERROR_WORDS.get(int(value[1:]), 'Unknown Error')}]"
    shown = codec.show(value)
    return shown.partition(" ")[0] if name in _UNITLESS else shown


def _bare(cell: str) -> str:
    number, _, unit = cell.partition(" ")
    return number if unit in ("MiB", "%", "W", "MHz", "C") else cell
