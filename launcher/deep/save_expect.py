"""What was measured, less 5 %, as `expect:` of the hosts in hosts.yaml."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from launcher.config.expect_edit import set_expectations
from launcher.config.inventory import Inventory
from launcher.errors import BadInput
from launcher.local.atomic_write import check_writable, write_atomic
from launcher.text import one_line
from preflight.deep.comparison import Reading

SHARE = 0.95
KEYS = ("gemm_tflops", "memory_gbs", "h2d_gbs", "allreduce_gbs")


def calculate_floors(readings: Iterable[Reading]) -> dict[str, dict[str, float]]:
    """Return the floors of each host: its slowest GPU's; a value that was judged bad is left out."""
    found: dict[str, dict[str, float]] = {}
    bad = set()
    for reading in readings:
        if reading.name not in KEYS:
            continue
        if reading.verdict != "ok":
            bad.add((reading.host, reading.name))
        values = found.setdefault(reading.host, {})
        floor = float(f"{SHARE * reading.value:.3g}")
        values[reading.name] = min(floor, values.get(reading.name, floor))
    kept = {
        host: {name: value for name, value in values.items() if (host, name) not in bad}
        for host, values in found.items()
    }
    return {host: values for host, values in kept.items() if values}


def require_editable(inventory: Inventory, hosts: Iterable[str]) -> None:
    """Find out before anything is measured whether hosts.yaml can be written. Raises BadInput and OSError."""
    path = _require_path(inventory)
    set_expectations(_read(path), {host: {KEYS[0]: 1.0} for host in hosts})
    check_writable(path)


def _require_path(inventory: Inventory) -> Path:
    """Return where hosts.yaml lies. Raises BadInput."""
    if inventory.path is None:
        raise BadInput("--save-expect: no hosts.yaml to write to", "gpulaunch init makes one")
    return inventory.path


def save_floors(readings: Iterable[Reading], inventory: Inventory) -> Iterator[str]:
    """Write the floors; yield what was done. Raises BadInput where hosts.yaml cannot be edited."""
    floors = calculate_floors(readings)
    if not floors:
        yield "nothing was saved: no value was measured that is fine"
        return
    path = _require_path(inventory)
    write_atomic(path, set_expectations(_read(path), floors))
    for host, values in floors.items():
        words = ", ".join(f"{name} {value:g}" for name, value in values.items())
        yield f"{one_line(str(path), 200)}: {host} expects {words}"


def _read(path: Path) -> str:
    """Return the text with the line ends that it has."""
    return path.read_bytes().decode("utf-8")
