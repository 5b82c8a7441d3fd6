"""The agent's facts against `nvidia-smi -q -x` of the same moment, value by value."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode
from preflight.facts.missing import Missing
from tests.gpu import smi
from tests.gpu.board import Board
from tests.gpu.launches import Launch
from tests.gpu.ledger import Ledger, Stopped
from tests.gpu.smi import Element

Read = Callable[[Element], Any]


@dataclass(frozen=True)
class Row:
    """One value: where the facts have it, and how nvidia-smi prints it. None: nvidia-smi has no value.

    With `moves`, a number may lie so far outside what nvidia-smi said before and after; a text may be either.
    """

    fact: str
    read: Read
    moves: float | None = None


def number(*paths: str) -> Read:
    return lambda gpu: smi.number(gpu, *paths)


def word(*paths: str) -> Read:
    return lambda gpu: smi.text(gpu, *paths) or None


def yes(good: str, *paths: str) -> Read:
    def read(gpu: Element) -> bool | None:
        found = smi.text(gpu, *paths)
        return found == good if found else None

    return read


def _bus_id(gpu: Element) -> str | None:
    found = smi.text(gpu, "pci/pci_bus_id").lower()
    domain, _, rest = found.partition(":")
    return f"{int(domain, 16):04x}:{rest}" if rest else None


def _errors(kind: str) -> Read:
    since, _, word = kind.partition(".")

    def read(gpu: Element) -> float | None:
        group = gpu.find(f"ecc_errors/{since}")
        pattern = re.compile(rf"[sd]ram_{word}")
        found = (
            [smi.number(group, each.tag) for each in group if pattern.match(each.tag)]
            if group is not None
            else []
        )
        known = [each for each in found if each is not None]
        return sum(known) if known else None

    return read


REASONS = {
    "gpu_idle": "idle",
    "applications_clocks_setting": "applications_clocks",
    "sw_power_cap": "sw_power_cap",
    "hw_slowdown": "hw_slowdown",
    "hw_thermal_slowdown": "hw_thermal",
    "hw_power_brake_slowdown": "hw_power_brake",
    "sync_boost": "sync_boost",
    "sw_thermal_slowdown": "sw_thermal",
    "display_clocks_setting": "display_clocks",
}


def _reasons(gpu: Element) -> list[str] | None:
    for name in ("clocks_event_reasons", "clocks_throttle_reasons"):
        group = gpu.find(name)
        if group is not None:
            words = {re.sub(r"^clocks_(event|throttle)_reason_", "", each.tag): each.text for each in group}
            return sorted(REASONS[key] for key, text in words.items() if key in REASONS and text == "Active")
    return None


def _recovery(gpu: Element) -> str | None:
    found = smi.text(gpu, "gpu_recovery_action")
    words = {"reset": "gpu_reset", "reboot": "node_reboot"}
    return words.get(found.lower(), re.sub(r"[^a-z0-9]+", "_", found.lower())) if found else None


def _pids(gpu: Element) -> list[int] | None:
    group = gpu.find("processes")
    if group is None or (group.text or "").strip() not in ("", "None"):  # N/A: it cannot be listed
        return None
    return sorted(int(each.text or 0) for each in gpu.findall("processes/process_info/pid"))


LINK = "pci/pci_gpu_link_info/"
FB = "fb_memory_usage/"
REMAP = "remapped_rows/"
POWER = ("gpu_power_readings/", "power_readings/")


def _width(gpu: Element, which: str) -> float | None:
    return smi.number(gpu, f"{LINK}link_widths/{which}_link_width")


GPU_ROWS = (
    Row("uuid", word("uuid")),
    Row("name", word("product_name")),
    Row("pci_bus_id", _bus_id),
    Row("minor", number("minor_number")),
    Row("compute_mode", lambda gpu: smi.text(gpu, "compute_mode").lower() or None),
    Row("persistence", yes("Enabled", "persistence_mode")),
    Row("mig_enabled", yes("Enabled", "mig_mode/current_mig")),
    Row("memory.total_mib", number(FB + "total")),
    Row("memory.reserved_mib", number(FB + "reserved"), moves=8),
    Row("memory.used_mib", number(FB + "used"), moves=8),
    Row("memory.free_mib", number(FB + "free"), moves=8),
    Row("utilization_percent", number("utilization/gpu_util"), moves=20),
    Row("ecc.enabled", yes("Enabled", "ecc_mode/current_ecc")),
    Row("ecc.corrected_volatile", _errors("volatile.correctable"), moves=1),
    Row("ecc.uncorrected_volatile", _errors("volatile.uncorrectable")),
    Row("ecc.uncorrected_aggregate", _errors("aggregate.uncorrectable")),
    Row("remap.correctable", number(REMAP + "remapped_row_corr")),
    Row("remap.uncorrectable", number(REMAP + "remapped_row_unc")),
    Row("remap.pending", yes("Yes", REMAP + "remapped_row_pending")),
    Row("remap.failed", yes("Yes", REMAP + "remapped_row_failure")),
    Row("retired_pages.single_bit", number("retired_pages/multiple_single_bit_retirement/retired_count")),
    Row("retired_pages.double_bit", number("retired_pages/double_bit_retirement/retired_count")),
    Row("temperature_c", number("temperature/gpu_temp"), moves=4),
    Row("temperature_slowdown_c", number("temperature/gpu_temp_slow_threshold")),
    Row("throttle", _reasons, moves=0),
    Row(
        "power_w",
        number(*(f"{group}{kind}power_draw" for kind in ("average_", "", "instant_") for group in POWER)),
        moves=30,
    ),
    Row(
        "power_limit_w",
        number(POWER[0] + "current_power_limit", POWER[1] + "enforced_power_limit", POWER[1] + "power_limit"),
    ),
    Row("clock_sm_mhz", number("clocks/sm_clock"), moves=300),
    Row("clock_sm_max_mhz", number("max_clocks/sm_clock")),
    Row("pcie.generation", number(LINK + "pcie_gen/current_link_gen"), moves=4),
    Row("pcie.generation_max", number(LINK + "pcie_gen/max_link_gen")),
    Row("pcie.width", lambda gpu: _width(gpu, "current"), moves=0),
    Row("pcie.width_max", lambda gpu: _width(gpu, "max")),
    Row("fabric.state", lambda gpu: smi.text(gpu, "fabric/state").lower().replace(" ", "_") or None),
    Row("recovery_action", _recovery),
    Row("processes", _pids, moves=0),
)


MOVING = frozenset(row.fact for row in GPU_ROWS if row.moves is not None)
ATTEMPTS = 3


def record(board: Board, *words: str, name: str = "facts") -> HostFacts:
    """Return the facts that `gpulaunch record localhost` writes. Raises Stopped."""
    return decode(HostFacts, recorded(board, *words, name=name)["facts"])


def recorded(board: Board, *words: str, name: str = "facts") -> dict[str, Any]:
    """Return the document that `gpulaunch record localhost` writes. Raises Stopped."""
    path = board.scratch / f"{name}.json"
    place = Launch(board, f"record-{name}")
    ended = place.command("record", "localhost", "--force", "-o", str(path), *words)
    if ended.code:
        raise Stopped(f"gpulaunch record: exit code {ended.code}: {ended.last_words}")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def compare_nvml(board: Board, ledger: Ledger) -> None:
    """What the agent reads through NVML."""
    before, facts, after = _at_rest(board, lambda attempt: record(board, name=f"facts-{attempt}"))
    _compare(facts, before, after, ledger)
    keep = Path(board.scratch, "nvidia-smi.xml")
    keep.write_text(before)


def _at_rest(board: Board, read: Callable[[int], HostFacts]) -> tuple[str, HostFacts, str]:
    """Return facts between two answers of nvidia-smi, again while only values that move disagree.

    A GPU that wakes up to answer has other clocks and power for a moment.
    """
    for attempt in range(ATTEMPTS):
        before = board.smi_xml()
        facts = read(attempt)
        after = board.smi_xml()
        found = () if isinstance(facts.gpus, Missing) else facts.gpus
        pairs = zip(found, smi.gpus(before), smi.gpus(after), strict=False)
        wrong = {what for pair in pairs for what, _, _, ok in compare_gpu(*pair) if not ok}
        if not wrong or wrong - MOVING:
            break
        time.sleep(1.0)
    return before, facts, after


def compare_smi(board: Board, ledger: Ledger) -> None:
    """What the agent reads of nvidia-smi, on a host whose NVML cannot be loaded."""
    from tests.preflight.agent_runs import run_agent  # noqa: PLC0415 - it imports pynvml

    skip = ["python", "processes", "ports", "network", "paths", "kernel_log", "system", "infiniband"]
    before, facts, after = _at_rest(
        board, lambda _: run_agent({"skip": skip}, environ=board.env, pynvml=b"").facts
    )
    source = "missing" if isinstance(facts.driver, Missing) else facts.driver.source
    if source == "nvml":
        ledger.unable("facts through nvidia-smi", "this Python has pynvml, and the agent prefers it")
        return
    ledger.equal("source of the driver's version", source, "nvidia-smi")
    _compare(facts, before, after, ledger)


def _compare(facts: HostFacts, before: str, after: str, ledger: Ledger) -> None:
    driver, gpus = facts.driver, facts.gpus
    if isinstance(driver, Missing) or isinstance(gpus, Missing):
        reason = driver if isinstance(driver, Missing) else gpus
        raise Stopped(f"the agent has read no GPU: {reason}")
    head = re.search(r"<driver_version>([^<]*)", before)
    cuda = re.search(r"<cuda_version>([^<]*)", before)
    ledger.equal("driver version", driver.version, head.group(1).strip() if head else "none")
    ledger.equal("CUDA version", driver.cuda_version, cuda.group(1).strip() if cuda else "none")
    first, last = smi.gpus(before), smi.gpus(after)
    if not ledger.equal("number of GPUs", len(gpus), len(first)):
        return
    for gpu, was, now in zip(gpus, first, last, strict=True):
        for what, observed, expected, ok in compare_gpu(gpu, was, now):
            ledger.check(f"gpu{gpu.index} {what}", observed, ok=ok, expected=expected)
        silent = [row.fact for row in GPU_ROWS if _read(row, was) is None]
        ledger.note(f"gpu{gpu.index} values that nvidia-smi does not print", ", ".join(silent) or "none")
        held = sorted(name for name in _missing(gpu))
        ledger.note(f"gpu{gpu.index} facts that the driver does not give", ", ".join(held) or "none")


def compare_gpu(gpu: Any, was: Element, now: Element) -> Iterator[tuple[str, Any, Any, bool]]:
    """Yield name, fact, nvidia-smi's value and whether they agree, for each value that nvidia-smi has."""
    for row in GPU_ROWS:
        fact, first, last = _fact(gpu, row.fact), _read(row, was), _read(row, now)
        if first is None:
            continue
        expected = first if first == last else f"{first} to {last}"
        yield row.fact, fact, expected, _agrees(fact, [first, last], row.moves)


def _read(row: Row, gpu: Element) -> Any:
    """Return what nvidia-smi says, None where it says nothing, or in a form of a driver that is not known."""
    try:
        return row.read(gpu)
    except (ValueError, AttributeError, TypeError):
        return None


def _agrees(fact: Any, said: Sequence[Any], moves: float | None) -> bool:
    known = [each for each in said if each is not None]
    if isinstance(fact, Missing):
        return False
    if moves and not isinstance(fact, (str, list, bool)):
        return bool(min(known) - moves <= fact <= max(known) + moves)
    return fact == known[0] if moves is None else fact in known


def _fact(gpu: Any, path: str) -> Any:
    value = gpu
    for name in path.split("."):
        value = getattr(value, name)
        if isinstance(value, Missing):
            return value
    if path == "processes":
        return sorted({process.pid for process in value})
    return sorted(value) if isinstance(value, tuple) else value


def _missing(gpu: Any) -> Iterator[str]:
    for name, value in _fields(gpu).items():
        if isinstance(value, Missing):
            yield f"{name} ({value.code})"


def _fields(gpu: Any) -> Mapping[str, Any]:
    return {name: getattr(gpu, name) for name in gpu.__dataclass_fields__}
