"""The CSV of `--query-gpu`, with the names of its columns above it or in the command. Pure."""

import csv
from collections.abc import Iterable
from itertools import pairwise, product
from typing import Any

from preflight import regex as re
from preflight.probes.gpu_enums import THROTTLE
from preflight.probes.nvidia_smi.health import ASKED
from preflight.probes.nvidia_smi.values import CUT
from preflight.smi_reports.compute_apps import HEADER, strip_units
from preflight.smi_reports.headerless_csv import NAME, UUID
from preflight.smi_reports.repeated_recordings import BUS, count_repeated, find_latest, select_newest
from preflight.smi_reports.table import LOST, MAKE, NO_ANSWER, find_absent_gpu, place_lost

Tree = dict[str, Any]

_COLUMNS = {
    # --query-gpu's name -> its place in the tree of -q -x
    **dict.fromkeys(("name", "gpu_name"), "product_name"),
    **dict.fromkeys(("uuid", "gpu_uuid"), "uuid"),
    **dict.fromkeys(("pci.bus_id", "gpu_bus_id"), "pci/bus_id"),
    "compute_cap": "compute_cap",
    "compute_mode": "compute_mode",
    **{f"memory.{size}": f"fb_memory_usage/{size}" for size in ("total", "reserved", "used", "free")},
    "utilization.gpu": "utilization/gpu",
    "persistence_mode": "persistence_mode",
    "mig.mode.current": "mig_mode/current",
    "ecc.mode.current": "ecc_mode/current",
    "ecc.errors.corrected.volatile.total": "ecc_errors/volatile/single_bit/total",
    "ecc.errors.uncorrected.volatile.total": "ecc_errors/volatile/double_bit/total",
    "ecc.errors.uncorrected.aggregate.total": "ecc_errors/aggregate/double_bit/total",
    **{
        f"ecc.errors.{which}.{since}.{memory}": f"ecc_errors/{since}/{memory}_{which.replace('ed', 'able')}"
        for which, since, memory in product(
            ("corrected", "uncorrected"), ("volatile", "aggregate"), ("dram", "sram")
        )
    },
    **dict.fromkeys(
        ("retired_pages.single_bit_ecc.count", "retired_pages.sbe"), "retired_pages/single_bit_ecc"
    ),
    **dict.fromkeys(("retired_pages.double_bit.count", "retired_pages.dbe"), "retired_pages/double_bit_ecc"),
    "retired_pages.pending": "retired_pages/pending",
    "remapped_rows.correctable": "remapped_rows/correctable_error",
    "remapped_rows.uncorrectable": "remapped_rows/uncorrectable_error",
    "remapped_rows.pending": "remapped_rows/pending",
    "remapped_rows.failure": "remapped_rows/remapping_failure_occurred",
    "temperature.gpu": "temperature/gpu_temp",
    "power.draw": "power_readings/power_draw",
    "power.limit": "power_readings/power_limit",
    "enforced.power.limit": "power_readings/enforced_power_limit",
    "clocks.current.sm": "clocks/sm",
    "clocks.sm": "clocks/sm",
    "clocks.max.sm": "max_clocks/sm",
    **{f"pcie.link.gen.{when}": f"pci/gpu_link_info/pcie_generation/{when}" for when in ("current", "max")},
    **{f"pcie.link.width.{when}": f"pci/gpu_link_info/link_width/{when}" for when in ("current", "max")},
    "fabric.state": "fabric/state",
    "fabric.status": "fabric/status",
    "gpu_recovery_action": "gpu_recovery_action",
}
_FIELD = re.compile(
    r"\w+\.[\w.]+|\w+_(?:version|mode|serial)|display_\w+|timestamp|count|index|serial|pstate|board_id|gpu"
)
"""Names of other columns of nvidia-smi."""


_IDENTITIES = frozenset({"index", "timestamp", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id"})
"""What separates a GPU, or a listing, from another."""


def parse_csv(text: str) -> Tree:
    """Return the tree of a CSV of --query-gpu, {} where most columns are others. Raises ValueError."""
    lines = _csv_lines(text)
    names = strip_units(lines[0].rstrip(", ").split(",")) if lines else []
    if 2 * sum(name in _COLUMNS or _FIELD.fullmatch(name) is not None for name in names) <= len(names):
        return {}
    starts = [at for at, line in enumerate(lines) if line == lines[0]]  # again for each time or host
    absent = find_absent_gpu(text)
    parts = [lines[start:end] for start, end in pairwise([*starts, len(lines)])]
    is_loop = _LOOP.search(text) is not None
    is_open = bool(lines) and _is_open(text, lines)
    trees = [
        _rows_tree(part, absent, is_loop=is_loop, is_open=is_open and part is parts[-1]) for part in parts
    ]
    if is_open:
        _mark_open_end(trees[-1], parts[-1])
    tree = trees[find_latest(trees, ["\n".join(part) for part in parts])]
    if not _IDENTITIES.intersection(names) and (least := count_repeated(tree["gpu"], 2)):
        tree["at_least"] = least
    place_lost(tree["gpu"], text, are_numbered="index" in names)
    return tree


def _rows_tree(lines: list[str], absent: Tree, *, is_loop: bool, is_open: bool) -> Tree:
    try:
        rows = list(csv.reader(lines, skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(f"its CSV is malformed: {error}") from None
    names = strip_units(rows[0])
    rows = [rows[0], *(row for row in rows[1:] if not _repeats(row, names))]
    units = dict(_UNIT.findall(",".join(rows[0])))
    has_units = any(value.endswith(" MiB") for row in rows[1:] for value in row)
    tree: Tree = {"gpu": []}
    for number, row in enumerate(rows[1:], 1):
        if len(row) < len(names):
            row = _short_row(row, rows, names, is_last=number == len(rows) - 1, is_open=is_open)  # noqa: PLW2901 - as it was meant
        if len(row) != len(names):
            raise ValueError(f"a row of its CSV has {len(row)} values under {len(names)} names")
        values = dict(zip(names, map(str.strip, row), strict=True))
        for name in (name for name in values if has_units and name.startswith("memory.")):
            values[name] = CUT if _NO_UNIT.fullmatch(values[name]) else values[name]
        gpu = build_gpu(values)
        tree.update({name: values[name] for name in ("driver_version",) if name in values})
        _refuse_misplaced(zip(names, row, strict=True), gpu, units)
        if any(map(_NEEDS_RESET.fullmatch, row)):
            gpu["gpu_reset_status"] = {"reset_required": "Yes"}
        if reasons := _clock_reasons(values):
            gpu["clocks_event_reasons"] = reasons
        tree["gpu"].append(gpu)
    indexes, times = _column(rows, names, "index"), _column(rows, names, "timestamp")
    if names[-1] == "memory.total":
        _mark_cut_total(tree["gpu"])
    tree["gpu"] = select_newest(tree["gpu"], indexes, times, absent, is_loop=is_loop)
    return tree


def _clock_reasons(row: dict[str, str]) -> dict[str, str]:
    """Return the reasons for lower clocks by their words; nothing where the row lacks some that matter."""
    found = {match[1]: value for name, value in row.items() if (match := _REASON.fullmatch(name))}
    mask = found.pop("active", "")
    if _MASK.fullmatch(mask):
        return {name: "Active" if int(mask, 16) & bit else "Not Active" for bit, name in THROTTLE}
    found = {name: value for name, value in found.items() if value in ("Active", "Not Active")}
    return {**found, ASKED: ""} if found.keys() >= _SLOWDOWNS else found


def _repeats(row: list[str], names: list[str]) -> bool:
    """Whether a row is the line of names again, which may be damaged."""
    shown = strip_units(row)
    return 2 * sum(name in names for name in shown) >= len(shown)


def _refuse_misplaced(row: Iterable[tuple[str, str]], gpu: Tree, units: dict[str, str]) -> None:
    """Raise ValueError where a value is one of another column: by its form, or by its unit."""
    if wrong := next((key for key, no in _MISPLACED.items() if no.fullmatch(gpu.get(key, ""))), ""):
        raise ValueError(f"a row of its CSV has {gpu[wrong]!r} under {wrong.removeprefix('product_')}")
    for name, value in row:
        if name == "index" and _NO_INDEX.match(value):
            raise ValueError(f"a row of its CSV has {value!r} under {name}")
        if not units:
            continue
        found = _MEASURED.fullmatch(value.strip()) if value[-1:] in ("B", "W", "%", "z") else None
        if found and name in _COLUMNS and found[1] != (units.get(name) or _UNIT_OF.get(name.split(".")[0])):
            raise ValueError(f"a row of its CSV has {value!r} under {name}")


def _is_open(text: str, lines: list[str]) -> bool:
    """Whether the last row may lack its end, at the text's end or terminal's width. Raises ValueError."""
    _, last, behind = text.rpartition(lines[-1])
    below = behind.split("\n", 3)
    is_longest = len(last) == max(map(len, lines))
    if len(below) < 2 or not (is_longest and _ROW_REST.fullmatch(below[1])):
        return behind == "" and last != ""
    if len(below) > 2 and below[2].count(",") == lines[0].count(",") > 0:
        raise ValueError("the rows of its CSV are wrapped, and where they end is not known")
    return True


def _mark_open_end(tree: Tree, lines: list[str]) -> None:
    """Mark the last value of a row that may lack its end, where no other row has the same.

    A number without a unit, a name and a version may continue behind the end of the text.
    """
    name = strip_units(lines[0].split(","))[-1]
    values = [line.rpartition(",")[2].strip() for line in lines[1:]]
    last = values[-1] if values else ""
    place = _COLUMNS.get(name, "")
    if not tree["gpu"] or last in values[:-1] or not _OPEN.fullmatch(last):
        return
    if name == "driver_version":
        tree["driver_version"] = CUT
    elif place == "product_name":
        tree["gpu"][-1][place] = f"{last}..."
    elif place.startswith("fb_memory_usage"):
        tree["gpu"][-1]["fb_memory_usage"] = dict.fromkeys(("total", "used", "free"), CUT)
    elif place:
        _put(tree["gpu"][-1], place, CUT)


def _column(rows: list[list[str]], names: list[str], name: str) -> list[str]:
    """Return the values below a name, [] where no column has it."""
    at = names.index(name) if name in names else len(names)
    return [row[at].strip() if at < len(row) else "" for row in rows[1:]] if at < len(names) else []


def _mark_cut_total(gpus: list[Tree]) -> None:
    """Mark the memory of the last GPU as cut where it is the start of that of another of its name.

    Without units a number that the end of the file cuts looks like a whole one.
    """
    totals = [(gpu.get("product_name"), str(gpu.get("fb_memory_usage", {}).get("total", ""))) for gpu in gpus]
    name, total = totals[-1] if totals else ("", "")
    if total and any(other == name and size != total and size.startswith(total) for other, size in totals):
        gpus[-1]["fb_memory_usage"] = dict.fromkeys(gpus[-1]["fb_memory_usage"], CUT)


def _csv_lines(text: str) -> list[str]:
    """Return the line of names and the rows below it; with `noheader` the names of the command."""
    text = _REMARK.sub("", text).strip()
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("```")]
    start = next((at for at, line in enumerate(lines) if _is_names(line)), None)
    if start is None:
        asked = [(at, match[1]) for at, line in enumerate(lines) if (match := _QUERY.search(line))]
        if not asked:
            return lines
        names = asked[0][1]
        after = [at + 1 for at, again in asked if again == names]  # the same command, again and again
        rows = [_rows_below(lines[at:], names) for at in after]
        return [", ".join(names.split(",")), *next((each for each in reversed(rows) if each), [])]
    lines = _joined(lines[start:])
    names = lines[0]
    again = [at for at, line in enumerate(lines) if line == names]  # below other text, too
    parts = (lines[at:end] for at, end in pairwise([*again, len(lines)]))
    return [line for part in parts for line in (names, *_rows_below(part[1:], names))]


def _joined(lines: list[str]) -> list[str]:
    """Return names and rows with pieces joined that a terminal wrapped: they are as long as the longest."""
    end = next((at for at, line in enumerate(lines) if at and _PROMPT.search(line)), len(lines))
    width, kept = max(map(len, lines[:end])), lines[:1]
    full = [at for at in range(end - 1) if len(lines[at]) == width]
    is_wrapped = (len(full) > 1 or full == [0]) and all("," not in lines[at + 1] for at in full)
    was_full = len(lines[0]) == width
    for line in lines[1:]:
        commas = kept[0].count(",")
        lacks = kept[-1].count(",") < commas or (line.endswith("iB") and not kept[-1].endswith("iB"))
        lacks = lacks or (is_wrapped and "," not in line and not _PROMPT.search(line))  # its last value
        is_rest = lacks and line.count(",") < commas and len(kept[-1]) % width == 0
        is_rest = is_rest and not NO_ANSWER.search(kept[-1] + line) and not _TIMED.match(line)
        if was_full and (_NAMES_REST.fullmatch(line) if len(kept) == 1 else is_rest):
            kept[-1] += line
        else:
            kept.append(line)
        was_full = len(line) == width
    return kept


def _rows_below(lines: list[str], header: str) -> list[str]:
    """Return the lines below a header, to the first that is the next prompt, another header or other text.

    What the driver says of a lost GPU is a row, and so is one that the end of the file cuts.
    """
    columns = "," in header  # so each row has a comma
    lines = [line for line in lines if line.strip(" .\u2026") or not header.startswith("index")]
    for at, line in enumerate(lines):
        is_heading = line != header and (_is_names(line) or re.match(HEADER, line))
        if is_heading or _QUERY.search(line) or _PROSE.match(line):
            return lines[:at]
        if line.strip(" ,") and ("," in line or NO_ANSWER.search(line)):
            continue
        is_cut = columns and at == len(lines) - 1 and _CUT_ROW.fullmatch(line)
        if _PROMPT.search(line) or (columns and not is_cut):
            return lines[:at]
    return lines


def _is_names(line: str) -> bool:
    names = strip_units(line.rstrip(", ").split(","))
    is_known = any(name in _COLUMNS or name == "driver_version" for name in names)
    return is_known and "pid" not in names and all(map(_NAME.fullmatch, names))


def build_gpu(values: dict[str, str]) -> Tree:
    """Return the tree of a GPU of values by names of --query-gpu."""
    gpu: Tree = {}
    for name in filter(_COLUMNS.__contains__, values):
        _put(gpu, _COLUMNS[name], values[name])
    return gpu


_NO_INDEX = re.compile(r"\s*(?!\d+(?:\.0|:)?\s*$)\d")
_REASON = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)")
_MASK = re.compile(r"0x[0-9A-Fa-f]{16}")
_SLOWDOWNS = frozenset(
    {"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "sw_thermal_slowdown"}
)
_NAMES_REST = re.compile(
    r"[\s,]*(?:[a-z_.]+(?: \[[\w/%]+\])?|\[?[\w/%]+\])(?:, [a-z_.]+(?: \[[\w/%]+\])?)*,? ?"
)
_LOOP = re.compile(r"nvidia-smi\b[^\n]*[ \t](?:-l|-lms|--loop|--loop-ms)(?:[= ]?\d|[ \t]|$)", re.MULTILINE)
_QUERY = re.compile(r"--query-gpu=([\w.,]+)")
_PROMPT = re.compile(r"^\S{0,64}?[@:~]\S{0,128}?[#$%>] |^[#$%>] ?|^\S{0,128}[#$%]\s*$")
_PROSE = re.compile(r"\s*(?!Unable )[A-Za-z]?[a-z]+ [a-z]+[ ,]")
_REMARK = re.compile(r"(?<=\S)[ \t]{2,}#[ \t][^\n]*")  # of an author, behind a row
_TIMED = re.compile(r"\d{4}/\d\d/\d\d \d")  # the start of a row of its own

_ROW_REST = re.compile(r"(?!```)[^\s,:$#%>]{1,40}")  # what may be the rest of a value that a terminal wrapped
_CUT_ROW = re.compile(
    rf"\s*(?:\d{{1,2}}|[\d/]{{8,}} [\d:.]*|(?:{MAKE}|GPU-|(?:[0-9A-Fa-f]{{4}}){{1,2}}:).*)\s*"
)
_WORD = r"[a-z_]+(?:\d[a-z_]*)?"
_NAME = re.compile(rf"{_WORD}(?:\.{_WORD})*")
_NEEDS_RESET = re.compile(r"\s*\[GPU requires reset\]\s*", re.IGNORECASE)
_OPEN = re.compile(rf"[\d.]+|{NAME}")
_MISPLACED = {
    "uuid": re.compile(r"(?!GPU-|MIG-|N/A|\[|ERR)[^\0]+(?<!is lost)(?<!reset)"),
    "product_name": re.compile(r"[\d.]+(?: (?:MiB|%|W|C|MHz))?|GPU-[0-9A-Fa-f-]{9,}|[-: ]+"),
}
"""What is under a name in rows that were wrapped, or lack a value at their start."""

_FORMS = {
    **dict.fromkeys(("uuid", "gpu_uuid"), re.compile(UUID, re.IGNORECASE)),
    **dict.fromkeys(("pci.bus_id", "gpu_bus_id"), BUS),
}
"""Of values that no other column has."""

_UNIT = re.compile(r"(?<![a-z_.])([a-z_.]+) \[([\w/%]+)\]")
_UNIT_OF = {"memory": "MiB", "utilization": "%", "power": "W", "clocks": "MHz"}
"""Of names that were typed without theirs."""

_MEASURED = re.compile(r"\d[\d.]* (MiB|W|%|MHz)")
_NO_UNIT = re.compile(r"\d+(?: M?i?)?")


def _short_row(
    row: list[str], rows: list[list[str]], names: list[str], *, is_last: bool, is_open: bool
) -> list[str]:
    """Return a row with a value under each name: of a lost GPU that it is lost, of a cut row what it has.

    The last value of a row that ends the file may itself be cut, and is left out. One that other text follows
    may have lost its middle: of it what says itself where it belongs is kept.
    """
    if any(map(NO_ANSWER.search, row)):
        return [LOST] * len(names)
    has_time = names[0] == "timestamp" and any(row)
    is_cut = (
        is_last
        and (len(row) > 1 or has_time)
        and (row[0].strip().isdigit() if names[0] == "index" else row[0].strip())
    )
    if not is_cut:
        return row
    kept = row[:-1] if is_open else _certain_values(row, rows, names)
    return [*kept, *[CUT] * (len(names) - len(kept))]


def _certain_values(row: list[str], rows: list[list[str]], names: list[str]) -> list[str]:
    """Return what of a row that lost something is certain: its first value, and what only one column has."""
    others = [other for other in rows[1:] if len(other) == len(names)]
    return [
        value
        if at == 0
        or (name in _FORMS and _FORMS[name].fullmatch(value.strip()))
        or any(other[at] == value for other in others)
        else CUT
        for at, (value, name) in enumerate(zip(row[:-1], names, strict=False))
    ]


def _put(tree: Tree, path: str, value: str) -> None:
    *groups, key = path.split("/")
    for group in groups:
        tree = tree.setdefault(group, {})
    tree[key] = value
