"""A CSV of `--query-gpu` without the names of its columns: what its values themselves say. Pure.

A name, a UUID, a bus or a mode is of only one column. Sizes, percentages and plain numbers are of many, so
none of them is taken for a fact.
"""

from itertools import compress, pairwise
from typing import Any

from preflight import regex as re
from preflight.probes.nvidia_smi.capability import find_capability
from preflight.smi_reports.csv_dialects import parse_row
from preflight.smi_reports.repeated_recordings import select_newest
from preflight.smi_reports.table import LOST, MAKE, find_absent_gpu, find_unreachable, place_lost

Tree = dict[str, Any]

NAME = rf"(?:{MAKE}\b[\w .()+/-]{{1,60}}|Orin \(nvgpu\))"
UUID = r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_UUID_START = re.compile(r"G(?:P(?:U(?:-[0-9a-f-]{0,36})?)?)?\d{0,2}", re.IGNORECASE)
_BUS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.\d"
_KINDS = (
    (re.compile(NAME), "product_name"),
    (re.compile(UUID, re.IGNORECASE), "uuid"),
    (re.compile(_BUS, re.IGNORECASE), "pci"),
    (re.compile(r"\d{3}\.(?!00$)\d{2,3}(?:\.\d{2,3})?"), "driver_version"),
    (re.compile(r"Default|Prohibited|(?:Exclusive|E\.)[ _](?:Process|Thread)"), "compute_mode"),
)
ROW = rf"^[^\S\n]*(?:[^,\n]{{1,60}},){{0,12}} ?(?:{NAME}|{UUID})(?:,[^\n]{{0,400}})?[^\S\n]*$"
_TIME = re.compile(r"^[^\S\n]*(?:\d{4}/\d\d/\d\d [\d:.]+, |\d{4}-\d\d-\d\d[T ][\d:.,]+Z? )")
_HEADING = re.compile(r"[^\S\n]*[a-z_]+(?:\.[a-z_]+)*, [a-z_]")
"""The names of columns: where they end at the same place as a row, both are cut."""

_MAKER_ALONE = re.compile(r"(?:^|, ?)NVIDIA[^\S\n]*$")
"""The end of a line that a terminal wrapped within a name: the next one starts with the rest."""

_REST = re.compile(r"[.\d][\d.]{0,12},")  # what continues a number at the end of the line above
_TWO_PARTS = re.compile(r"\d{3}\.\d{2}")
_BARE_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_UNNAMED = "the columns of the CSV have no names; record it again without noheader"


def parse_headerless(text: str) -> tuple[Tree, str] | None:
    """Return the tree of rows whose values say what they are, and what is not known of them; else None."""
    timed = [line for line in text.split("\n") if line.strip() and not find_unreachable(line)]
    lines = [_TIME.sub("", line) for line in timed]
    read = [*map(_row, lines)]
    times, rows = list(compress(timed, read)), [row for row in read if row]
    if not rows:
        return None
    if any(map(_is_joined, rows)):
        raise ValueError("a row of its CSV is cut, and the next one follows in the same line")
    width = max(map(len, rows))
    whole = [row for row in rows if len(row) == width]
    ends = (read[0], None if text.endswith("\n") else read[-1])
    kept = [len(row) == width or row in ends or LOST in str(row) for row in rows]
    rows, times = list(compress(rows, kept)), list(compress(times, kept))
    kinds = [_kind([row[at] for row in whole]) for at in range(width)]
    kinds = [
        "" if kind == "driver_version" and _may_be_watts(whole, at) else kind for at, kind in enumerate(kinds)
    ]
    if not _are_gpus(whole, kinds) or (width == 1 and len(rows) < len(lines)):
        return None
    tree: Tree = {"gpu": []}
    absent = find_absent_gpu(text)
    edges = {len(line) for line in timed if _HEADING.match(line)}
    short = {row[-1] for line, row in zip(timed, read, strict=True) if row and len(line) in edges}
    rests = (row is None and _REST.match(line) for row, line in zip(read[1:], lines[1:], strict=True))
    short |= {above[-1] for above, is_rest in zip(read, rests, strict=False) if above and is_rest}
    headless = {line.split(",")[0].strip() for above, line in pairwise(timed) if _MAKER_ALONE.search(above)}
    for row in rows:
        places = kinds
        if len(row) < width:  # a driver's version is that of whole rows
            found = (_kind([value]) for value in row)
            places = [kind if kind in kinds or kind != "driver_version" else "" for kind in found]
        if row is rows[-1] and text.endswith(row[-1]) and [each[-1] for each in rows].count(row[-1]) < 2:
            short.add(row[-1])
        shown = [f"{value}..." if value == row[-1] in short else value for value in row]
        gpu: Tree = {
            key: value for key, value in zip(places, shown, strict=True) if key and value not in headless
        }
        tree.update({key: gpu[key] for key in ("driver_version",) if key in gpu})
        if "pci" in gpu:
            gpu["pci"] = {"bus_id": gpu["pci"]}
        tree["gpu"].append({"product_name": LOST, "uuid": LOST} if LOST in str(row) else gpu)
    first = [row[0] for row in rows]  # of rows that no time is in front of
    indexes = first if all(len(index) < 3 and index.isdigit() for index in first) else []
    tree["gpu"] = select_newest(tree["gpu"], indexes, times, absent, is_loop=False)
    if read[-1] is None and re.match(rf"{len(tree['gpu'])},", lines[-1]):
        tree["gpu"].append(absent)  # of whose row the cut left no name and no UUID
    place_lost(tree["gpu"], text, are_numbered=bool(indexes))
    unread = [value for kind, value in zip(kinds, whole[0], strict=True) if not kind]
    why = f"{_UNNAMED} ({', '.join(unread[:4])} can be of several)" if unread else _UNNAMED
    if len(rows) > 1 and not indexes and not _TIME.match(times[0]) and {"uuid", "pci"}.isdisjoint(kinds):
        why += "; rows may list GPUs again, so the host may have fewer"
    return tree, why


def _are_gpus(rows: list[list[str]], kinds: list[str]) -> bool:
    """Whether rows are those of GPUs: by UUIDs beside names or buses, or by numbered or known names."""
    if "uuid" in kinds and (len(kinds) == 1 or not {"product_name", "pci"}.isdisjoint(kinds)):
        return True  # and not a process with its GPU
    names = [row[kinds.index("product_name")] for row in rows] if "product_name" in kinds else []
    are_numbered = [row[0] for row in rows] == [str(at) for at in range(len(rows))]
    return bool(names) and (
        are_numbered or all(isinstance(find_capability({}, name), list) for name in names)
    )


def _may_be_watts(rows: list[list[str]], place: int) -> bool:
    """Whether the versions of a column may be powers without their unit, of rows with other bare numbers.

    A host has one driver, so one value; a version has three parts, a number two.
    """
    values = {row[place] for row in rows if LOST not in row[place]}
    others = [value for row in rows for at, value in enumerate(row) if 0 < at != place]
    is_bare = any(map(_BARE_NUMBER.fullmatch, others))
    return len(values) > 1 or (is_bare and any(map(_TWO_PARTS.fullmatch, values)))


def _row(line: str) -> list[str] | None:
    """Return the values of a line that holds one which only a GPU's row has, else None."""
    values = parse_row(line)
    known = re.compile(rf"{NAME}|{UUID}", re.IGNORECASE)
    return values if any(known.fullmatch(value) or LOST in value for value in values) else None


def _is_joined(row: list[str]) -> bool:
    """Whether a row that is cut within its UUID, or the line of names, lost its end of line as well."""
    if _HEADING.match(", ".join(row)):
        return True
    uuids = [at for at, value in enumerate(row) if re.fullmatch(UUID, value, re.IGNORECASE)]
    starts = [at for at, value in enumerate(row) if at not in uuids and _UUID_START.fullmatch(value)]
    return len({row[at] for at in uuids}) > 1 or bool(uuids and starts and starts[0] < uuids[-1])


def _kind(column: list[str]) -> str:
    """Return the place in the tree of a column all of whose values are of one kind, "" for another."""
    for pattern, place in _KINDS:
        if column and all(pattern.fullmatch(value) or LOST in value for value in column):
            return place
    return ""
