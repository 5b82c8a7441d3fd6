"""GPUs in reports of others: collect_env of torch, check_env of sglang, /proc/driver/nvidia/gpus. Pure."""

from typing import Any

from preflight import regex as re
from preflight.smi_reports.headerless_csv import UUID
from preflight.smi_reports.monitors import TOPOLOGY, parse_topology
from preflight.smi_reports.table import MAKE, MAX_GPUS
from preflight.smi_reports.truncated_lines import TruncatedLines

Tree = dict[str, Any]

_LINE = r"GPU (\d{1,2}(?:,\d{1,2})*): ([^\n(]*[^\s(])[ \t]*"
_ALONE = rf"\A(?:\s*GPU \d{{1,2}}: {MAKE} [\w -]+\n)+\s*\Z"  # as -L without UUIDs
COLLECTED = (
    rf"^GPU models and configuration *:|{_ALONE}|^(?:{_LINE}\n){{1,64}}GPU [\d,]+ Compute Capability: "
)
INFORMATION = rf"^Model:[ \t]+{MAKE}\b.*\n(?:.*\n){{0,4}}(?:IRQ|GPU UUID):"
_LISTED = re.compile(rf"{_LINE}$", re.MULTILINE)
_REST = re.compile(r"\n(?!GPU \d|MIG |[A-Z][\w ()]{2,60}:)[ \t]*\S")  # of a name that a terminal wrapped
_MIG = re.compile(r"\n[ \t]*MIG [\w.]+ +Device")

_DRIVER = re.compile(r"^(?:Nvidia driver version *|CUDA Driver Version): ([\d.]+)", re.MULTILINE)
_FIELD = re.compile(r"^([A-Z][\w ]+):[ \t]+(\S[^\n]*?)[ \t]*$", re.MULTILINE)
_UUID = re.compile(rf"{UUID}|.*\?.*", re.IGNORECASE)  # only root sees it, others read `GPU-????????-????-...`
_PLACES = {"Model": "product_name", "GPU UUID": "uuid", "Bus Location": "@id", "Device Minor": "minor_number"}


def parse_report(text: str) -> Tree:
    """Return the GPUs and the driver that a report names. Raises ValueError where it names none.

    CUDA numbers those that sglang's process sees in its own order: unlike ones, and fewer than the topology
    beside them has, keep no name.
    """
    head, lines = re.search(COLLECTED, text, re.MULTILINE), TruncatedLines(text)
    block = text[head.start() if head else 0 :].partition("\n\n")[0]
    cut = {
        found: lines.may_lack(found[0]) or _REST.match(block, found.end())
        for found in _LISTED.finditer(block)
    }
    names = {
        int(number): f"{found[2]}..." if is_cut else found[2]
        for found, is_cut in cut.items()
        for number in found[1].split(",")
    }
    if not names or max(names) >= MAX_GPUS:
        raise ValueError("it names no GPU")
    count = max(names) + 1
    if head and head[1]:
        has_topology = re.search(TOPOLOGY, text, re.MULTILINE) is not None
        count = max(len(parse_topology(text)["gpu"]) if has_topology else 0, count)
        names = names if count == len(names) and len(set(names.values())) == 1 else {}
    driver = _DRIVER.search(text)
    if driver is not None and lines.may_lack(driver[0]):
        driver = None
    modes = {int(found[1]): {"current": "Enabled"} for found in cut if _MIG.match(block, found.end())}
    gpus: list[Tree] = [{"product_name": names[at]} if at in names else {} for at in range(count)]
    for at, mode in modes.items():
        gpus[at]["mig_mode"] = mode
    return {"gpu": gpus, **({"driver_version": driver[1]} if driver else {})}


def parse_information(text: str) -> Tree:
    """Return the GPUs of `cat /proc/driver/nvidia/gpus/*/information`, in the order of their buses."""
    gpus: list[Tree] = []
    fields = _FIELD.findall(text)
    is_cut = any(label == "GPU UUID" and not _UUID.fullmatch(value) for label, value in fields)
    for label, value in fields:
        if label == "Model":
            gpus.append({})
        if label in _PLACES and gpus and "?" not in value:  # only root sees the UUID
            gpus[-1][_PLACES[label]] = value + "..." * (is_cut and label == "Model")
    return {"gpu": sorted(gpus, key=lambda gpu: str(gpu.get("@id", "")))[:MAX_GPUS]}
