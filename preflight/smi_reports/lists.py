"""The short outputs: --query-gpu as CSV, -L and nvlink -s, and lspci's view of the same hardware."""

import csv
import re
from typing import Any

from preflight.probes.nvidia_smi.values import NOT_HELD

Tree = dict[str, Any]

_COLUMNS = {
    # --query-gpu's name -> its place in the tree of -q -x
    "name": "product_name",
    "gpu_name": "product_name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "pci/bus_id",
    "gpu_bus_id": "pci/bus_id",
    "compute_cap": "compute_cap",
    "compute_mode": "compute_mode",
    "memory.total": "fb_memory_usage/total",
    "memory.reserved": "fb_memory_usage/reserved",
    "memory.used": "fb_memory_usage/used",
    "memory.free": "fb_memory_usage/free",
    "utilization.gpu": "utilization/gpu",
    "persistence_mode": "persistence_mode",
    "mig.mode.current": "mig_mode/current",
    "ecc.mode.current": "ecc_mode/current",
    "ecc.errors.corrected.volatile.total": "ecc_errors/volatile/dram_correctable",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors/volatile/dram_uncorrectable",
    "ecc.errors.uncorrected.aggregate.total": "ecc_errors/aggregate/dram_uncorrectable",
    "remapped_rows.correctable": "remapped_rows/correctable_error",
    "remapped_rows.uncorrectable": "remapped_rows/uncorrectable_error",
    "remapped_rows.pending": "remapped_rows/pending",
    "remapped_rows.failure": "remapped_rows/remapping_failure_occurred",
    "temperature.gpu": "temperature/gpu_temp",
    "power.draw": "power_readings/power_draw",
    "power.limit": "power_readings/power_limit",
    "clocks.current.sm": "clocks/sm",
    "clocks.sm": "clocks/sm",
    "clocks.max.sm": "max_clocks/sm",
    "pcie.link.gen.current": "pci/gpu_link_info/pcie_generation/current",
    "pcie.link.gen.max": "pci/gpu_link_info/pcie_generation/max",
    "pcie.link.width.current": "pci/gpu_link_info/link_width/current",
    "pcie.link.width.max": "pci/gpu_link_info/link_width/max",
    "fabric.state": "fabric/state",
    "fabric.status": "fabric/status",
    "gpu_recovery_action": "gpu_recovery_action",
}


_UNKNOWN = "\0"  # no text of a file has it


def csv_tree(text: str) -> Tree:
    """Return the tree of `--query-gpu=... --format=csv`; raises ValueError where a row does not fit."""
    lines = [line for line in text.strip().split("\n") if line.strip()]
    try:
        rows = list(csv.reader(lines, skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(f"its CSV is malformed: {error}") from None
    names = [re.sub(r" \[.*\]$", "", name.strip()) for name in rows[0]]
    tree: Tree = {"gpu": []}
    for number, row in enumerate(rows[1:], 1):
        if len(row) < len(names):
            row = _short_row(row, names, last=number == len(rows) - 1)  # noqa: PLW2901 - the row as it was meant
        if len(row) != len(names):
            raise ValueError(f"a row of its CSV has {len(row)} values under {len(names)} names")
        gpu: Tree = {}
        for name, value in zip(names, row, strict=True):
            if name == "driver_version":
                tree["driver_version"] = value.strip()
            elif name in _COLUMNS and value != _UNKNOWN:
                _put(gpu, _COLUMNS[name], value.strip())
        tree["gpu"].append(gpu)
    return tree


_LOST = "GPU is lost"


def _short_row(row: list[str], names: list[str], *, last: bool) -> list[str]:
    """Return a row with a value under each name: of a lost GPU that it is lost, of a cut row what it has.

    The last value of a row that ends the file may itself be cut, and is left out.
    """
    if any(_LOST.lower() in value.lower() for value in row):
        return [_LOST] * len(names)
    return [*row[:-1], *[_UNKNOWN] * (len(names) - len(row) + 1)] if last and len(row) > 1 else row


def _put(tree: Tree, path: str, value: str) -> None:
    *groups, key = path.split("/")
    for group in groups:
        tree = tree.setdefault(group, {})
    tree[key] = value


MAX_GPUS = 64
_GPU = re.compile(r"^GPU (\d{1,4}): (.*?) \(UUID: ([\w-]+)\)", re.MULTILINE)
_LINK = re.compile(r"^[^\S\n]*Link (\d{1,4}):(.*)$", re.MULTILINE)


def list_tree(text: str) -> list[tuple[Tree, list[dict[str, Any]]]]:
    """Return (tree, NVLinks) of each GPU of `-L` or `nvlink -s`.

    A number without a line is a GPU of which nothing is known: a lost one where the text says that one is.
    Raises ValueError where the numbers are those of no host.
    """
    heads = list(_GPU.finditer(text))
    found: list[tuple[Tree, list[dict[str, Any]]]] = []
    absent: Tree = {"product_name": _LOST, "uuid": _LOST} if _LOST.lower() in text.lower() else {}
    for number, head in enumerate(heads):
        index = int(head.group(1))
        if index < len(found) or index >= MAX_GPUS:
            raise ValueError(f"GPU {len(found)} is not in it")
        found += [(absent, [])] * (index - len(found))
        end = heads[number + 1].start() if number + 1 < len(heads) else len(text)
        links = [
            {"link": int(link), "active": "inactive" not in state.lower(), "errors": NOT_HELD}
            for link, state in _LINK.findall(text[head.end() : end])
        ]
        found.append(({"product_name": head.group(2), "uuid": head.group(3)}, links))
    return found


_LSPCI = re.compile(
    r"^((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d) "
    r"(?:VGA compatible controller|3D controller|Display controller)"
    r".*?: NVIDIA.*?(?:\[10de:([0-9a-f]{4})\].*|Device ([0-9a-f]{4})\b.*)?$",
    re.MULTILINE,
)


def lspci_gpus(text: str) -> list[dict[str, Any]]:
    """Return facts.PciGpu for each NVIDIA display controller."""
    found = []
    for bus, with_vendor, alone in _LSPCI.findall(text):
        bus_id = bus if bus.count(":") == 2 else "0000:" + bus
        found.append({"bus_id": bus_id, "device_id": with_vendor or alone, "driver": NOT_HELD})
    return found
