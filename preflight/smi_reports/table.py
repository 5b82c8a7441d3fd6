"""The plain table of `nvidia-smi` -> the tree of its XML, for the dozen values that it shows."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from preflight import regex as re
from preflight.probes.nvidia_smi.values import CUT

Tree = dict[str, Any]

_HEAD = re.compile(
    r"(?:Driver|KMD) Version: *([\w./]+)(?=[ |])(?:.*CUDA(?: UMD)? Version: *([\w./]+)(?=[ |]))?"
)
"""A version that ends its line may be cut: `12.1` of 12.10."""

_FIRST = re.compile(r"\s*(\d{1,4})\s+(\S.*?)(?:\s+(On|Off|WDDM|TCC|MCDM|N/A|ERR!))?\s*")
"""The mode of persistence is missing where a table was edited, and in the table of vGPUs."""
MAKE = r"(?:NVIDIA|Tesla|GeForce|Quadro|GRID|TITAN)"  # how names of GPUs start

_NUMBER_BLANKS = 2
_BUS = re.compile(r"\s*((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d|N/A(?= +N/A))\b.*")
"""Of a Jetson's GPU, which is on no bus, it is N/A; in tables drawn by hand it lacks its domain."""
_CUT_FIRST = re.compile(r"\s*(\d{1,4})\s+((?!N/A\b)[A-Z].*?)(?:\s{2,}\S{0,4})?\s*")
_CUT_BUS = re.compile(r"\s*[0-9A-Fa-f:.]*")
_NO_ECC = re.compile(r"Off|On|N/A|ERR!|Unknown Error|Not Supported")
_SECOND = re.compile(r"\s*(\S+?)\s+(\d+C|N/A|ERR!)\s+(P\d+|N/A|ERR!|Unknown Error)\s+(.*)")
_POWER = re.compile(r"(\S+) */ *(\S+)")
_NO_WATTS = re.compile(r"\d[^W]*")
_MEMORY = re.compile(r"\s*(\d{1,12})Mi?B */ *(\d{1,12})Mi?B\s*")
_NO_MEMORY = re.compile(rf"{CUT}|N/A|Not Supported|Unknown Error|ERR!|GPU is lost|Insufficient Permissions")
_USE = re.compile(r"\s*(\d+%|N/A|ERR!)\s+(\S.*?)\s*")
KIND = r"[CGM]+(?:\+[CGM]+)*"  # what a process does on a GPU: compute, draw, be a client of MPS
PROCESS_ROW = rf"^\|[^\S\n]+\d{{1,4}}(?:[^\S\n]+(?:N/A|\d+)){{1,3}}[^\S\n]+{KIND}[^\S\n][^|\n]*\dMiB \|"
_PROCESS = re.compile(
    rf"^\|\s+(\d{{1,4}})\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(\d{{1,10}})\s+({KIND})\s+([^\s|](?:[^|\ufffd]*[^\s|\ufffd])?)\s+(\d+MiB|N/A)\s*\|\s*$"
)
# Drivers before 346 list compute processes only, and name no type.
_OLD_PROCESS = re.compile(r"^\|\s+(\d{1,4})\s+(\d{1,10})\s+()(\S.*?)\s+(\d+)MB\s*\|\s*$")
UNLISTED = "Not Supported"  # what drivers before 390 say of the processes on a GeForce: there may be some
_NOT_LISTED = re.compile(rf"^\|\s+(\d{{1,4}})\s+{UNLISTED}\s*\|\s*$")

_CUT_PROCESS = re.compile(
    rf"^\|\s+(\d{{1,4}})\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(?:(\d{{1,10}})(?:\s+({KIND})(?:\s+([^\s|][^|]*))?)?)?()$"
)
_UNREAD = re.compile(r"^\|\s+(\d{1,4})(?:\s[^|]*)?$|^(?!\|[^|]*\|\s*$).*(?:\dMiB|N/A)\s*\|\s*$")
"""A row of a process that is cut before its pid, or damaged: of any GPU where it has no number."""
_NUMBERED = re.compile(r"^\|\s+(\d{1,2})\s[^|\n]*\dMiB \|", re.MULTILINE)
"""A row of a process on a GPU of which nothing is above it."""
_TYPE_BLANKS = 3  # from the type of a process to its name; more of them: its start is lost
_WINDOWS_MODELS = ("WDDM", "MCDM")
"""Models of Windows in which the system manages the memory, and nvidia-smi names none of a process."""
PROCESSES_START = re.compile(r"^\W*(?:Compute p|P)rocesses:", re.MULTILINE)
_MIG_START = re.compile(r"^\W*MIG devices:", re.MULTILINE)
"""Rows of a table: an author writes these words above it, too."""
PARTIAL = "processes_cut"  # of a GPU that may have more processes than its list
LOST = "GPU is lost"
NO_ANSWER = re.compile(r"GPU is lost|[Uu]nable to determine the device handle")
_UNREACHABLE = re.compile(
    r"[Uu]nable to determine the device handle for [Gg][Pp][Uu] ?"
    r"(?:(\d{1,2}): )?([0-9A-Fa-f]+[:.][0-9A-Fa-f:.]*)"
)
SHORT_BUS = len("03:00.0")
MAX_GPUS = 64
_CELLS = 3


def parse_table(text: str) -> Tree:
    """Return the tree of a table; a name that the table cuts short keeps its "..."."""
    tree: Tree = {"gpu": []}
    head = _HEAD.search(text)
    if head:
        tree["driver_version"] = head.group(1)
        if head.group(2):
            tree["cuda_version"] = head.group(2)
    table, processes = (*PROCESSES_START.split(text, maxsplit=1), "")[:2]
    row, is_again, widths = None, False, _widths(table)
    above = list[str]()
    for line, _ in groupby(_MIG_START.split(table, maxsplit=1)[0].split("\n")):  # none that is doubled
        start = line.strip()
        cells = start.removeprefix("|").removesuffix("|").split("|")
        if not start.startswith("|") or len(cells) > _CELLS:
            above = [] if start.startswith("+") else above  # below a rule the same readings are another's
            continue
        cells += [""] * (_CELLS - len(cells))  # behind what is left of a line that is cut
        found = _first_row(cells, len(tree["gpu"]))
        if found is not None:
            row = _placed_row(tree["gpu"], *found, text)
            is_again = row is not found[1]
        elif row is not None:
            cells = _without_lost(cells, widths)
            is_another = "fb_memory_usage" in row and not is_again and cells != above
            if is_another and _MEMORY.fullmatch(cells[1]) and _SECOND.fullmatch(cells[0]):
                row = {}  # of a GPU whose first line is lost
                tree["gpu"].append(row)
            above = cells if _SECOND.fullmatch(cells[0]) else above
            add_readings(row, cells)
    if tree["gpu"]:
        place_lost(tree["gpu"], text, are_numbered=True)
    if processes:
        named = [int(number) for number in _NUMBERED.findall(processes)] if not tree["gpu"] else []
        tree["gpu"] += [{"product_name": CUT} for _ in range(max(named, default=-1) + 1)]
        _processes(tree["gpu"], processes)
    return tree


_MOST_LOST = 3  # characters of a cell that a byte or two lost; more: blanks were taken away


def _widths(table: str) -> list[int]:
    """Return the widths of the cells by the lines between the rows, [] where none is whole."""
    edge = re.search(r"^[|+]([-=]{9,})\+([-=]{9,})\+([-=]{9,})[|+]\s*$", table, re.MULTILINE)
    return [len(part) for part in edge.groups()] if edge else []


def _without_lost(cells: list[str], widths: list[int]) -> list[str]:
    """Return cells with CUT for the one that is narrower than its column, where the others are not."""
    lost = [width - len(cell) for cell, width in zip(cells, widths, strict=False)]
    if lost.count(0) != _CELLS - 1 or not 0 < max(lost) <= _MOST_LOST:
        return cells
    return [f" {CUT} " if count else cell for count, cell in zip(lost, cells, strict=True)]


def _placed_row(gpus: list[Tree], number: int, row: Tree, text: str) -> Tree:
    """Put a GPU's row at its number and return it, or the known one where the line is doubled."""
    known = gpus[number] if number < len(gpus) else {"@id": ""}
    if "@id" in row and known.get("@id") == row["@id"]:
        return known
    if "@id" not in known:  # nothing was read of it, or what is doubled of another
        gpus[number] = row
        return row
    if len(gpus) < number < MAX_GPUS:
        gpus += [find_absent_gpu(text) for _ in range(number - len(gpus))]
    gpus.append(row)
    return row


def find_unreachable(text: str, gpus: Iterable[Tree] = ()) -> dict[str, str]:
    """Return {bus: number or ""} of GPUs that the driver names and cannot reach, but for those of `gpus`.

    What it says of one that is listed is of another moment: of one before the reboot that brought it back.
    """
    listed = {_bus(gpu)[-SHORT_BUS:] for gpu in gpus}
    named = {bus.rstrip(":.").lower(): number for number, bus in _UNREACHABLE.findall(text)}
    short = {bus[-SHORT_BUS:]: (bus, number) for bus, number in named.items()}
    return dict(place for bus, place in short.items() if bus not in listed)


def place_lost(gpus: list[Tree], text: str, *, are_numbered: bool) -> None:
    """Put GPUs that the driver names and cannot reach behind those of a text, or among them.

    Those of a text without numbers are at those that the driver says, or in the order of their buses.
    """
    placed, has_buses = sum(LOST in str(gpu) for gpu in gpus), all(map(_bus, gpus))
    lost = [*find_unreachable(text, gpus).items()][placed:MAX_GPUS] if gpus else []
    for bus, number in sorted(lost, key=lambda pair: int(pair[1] or MAX_GPUS)):
        at = int(number) if number else sum(_bus(gpu) < _in_order(bus) for gpu in gpus)
        is_known = not are_numbered and not placed and (number or has_buses)
        where = {"pci": {"bus_id": bus}} if is_known else {}
        gpus += [{} for _ in range(min(at, MAX_GPUS) - len(gpus))]  # that a cut text does not show
        gpus.insert(at if is_known else len(gpus), {**find_absent_gpu(text), **where})


def _bus(gpu: Tree) -> str:
    pci = gpu.get("pci")
    return _in_order(str(gpu.get("@id") or (pci.get("bus_id") if isinstance(pci, dict) else None) or ""))


def _in_order(bus: str) -> str:
    """Return a bus with all digits of its domain, as NVML orders them; "" for none."""
    return bus and bus.lower().rjust(len("00000000:65:00.0"), "0")


def find_absent_gpu(text: str) -> Tree:
    """Return what a text says of a GPU that it has no row for: that one is lost, or nothing."""
    return {"product_name": LOST, "uuid": LOST} if NO_ANSWER.search(text) else {}


def is_closed(processes: str) -> bool:
    """Whether the list of processes goes to its lower edge, or says that it is empty."""
    return (
        re.search(r"^\+-{20,}|^\|\s+No running (?:compute )?processes", processes, re.MULTILINE) is not None
    )


def _first_row(cells: list[str], count: int) -> tuple[int, Tree] | None:
    """Return number and row of the cells of a GPU's first line, whole or cut; None for another line.

    `count` GPUs are known already: a line that is cut is only believed with a greater number than theirs.
    """
    first, bus = _FIRST.fullmatch(cells[0]), _BUS.fullmatch(cells[1])
    if first and bus:
        return int(first.group(1)), _named_row(first, bus.group(1), cells[2].strip())
    cut = first if first and _CUT_BUS.fullmatch(cells[1]) else None
    cut = cut or (None if any(cells[1:]) else _CUT_FIRST.fullmatch(cells[0]))
    if cut is None or cells[2].strip() or int(cut.group(1)) < count:
        return None
    name = _name(cut)
    is_whole = bool(cells[1].strip()) or cells[0][cut.end(2) :].startswith("  ")
    return int(cut.group(1)), {
        "product_name": name if is_whole or name == "ERR!" else f"{name.rstrip('.')}..."
    }


def _name(first: re.Match[str]) -> str:
    """Return a name without what is left of the mode of persistence behind it, where that is cut.

    It starts two blanks behind the number: one of no known maker that starts later has lost its start.
    """
    is_moved = first.start(2) - first.end(1) > _NUMBER_BLANKS and not re.match(MAKE, first.group(2))
    has_mode = _is_by(_FIRST, first) and first.group(3)
    return CUT if is_moved else first.group(2) if has_mode else re.sub(r"\s{2,}\S{0,4}$", "", first.group(2))


def _named_row(first: re.Match[str], bus: str, ecc: str) -> Tree:
    row: Tree = {"@id": bus, "product_name": _name(first)}
    if first.group(3) in ("On", "Off"):
        row["persistence_mode"] = first.group(3)
    elif first.group(3) in _WINDOWS_MODELS:
        row["driver_model"] = first.group(3)
    if ecc.isdigit():
        row["ecc_mode"] = {"current": "Enabled"}
        row["ecc_errors"] = {"volatile": {"double_bit": {"total": ecc}}}
    elif _NO_ECC.fullmatch(ecc):
        row["ecc_mode"] = {"current": "Disabled" if ecc == "Off" else ecc}
    return row


def add_readings(row: Tree, cells: list[str]) -> None:
    """Put what the cells of a line below a GPU's first one say into its row."""
    memory, second, use = _MEMORY.fullmatch(cells[1]), _SECOND.fullmatch(cells[0]), _USE.fullmatch(cells[2])
    if second and "temperature" not in row:
        row["temperature"] = {"gpu_temp": second.group(2)}
        power = _POWER.search(second.group(4))
        if power:
            draw, limit = (CUT if _NO_WATTS.fullmatch(value) else value for value in power.groups())
            draw = "ERR!" if second.group(1) == "ERR!" and draw == "N/A" else draw  # no board lacks both
            row["power_readings"] = {"power_draw": draw, "power_limit": limit}
    if memory and "fb_memory_usage" not in row:
        row["fb_memory_usage"] = {"used": memory[1], "total": memory[2]}
    elif second and "fb_memory_usage" not in row and _NO_MEMORY.fullmatch(cells[1].strip()):
        row["fb_memory_usage"] = dict.fromkeys(("total", "used"), cells[1].strip())
    if use and "compute_mode" not in row:
        row["utilization"] = {"gpu": use.group(1)}
        row["compute_mode"] = use.group(2)
    elif (
        not second
        and "mig_mode" not in row
        and cells[2].strip() in ("Enabled", "Disabled", "N/A", "Enabled*", "Disabled*")
    ):
        row["mig_mode"] = _mig_mode(cells[2].strip())


def _mig_mode(word: str) -> Tree:
    """Return current and pending mode; a star is a change that waits for a reset of the GPU."""
    current = word.rstrip("*")
    pending = {"Enabled": "Disabled", "Disabled": "Enabled"}.get(current, current)
    return {"current": current, "pending": pending if word.endswith("*") else current}


def _process_row(line: str) -> re.Match[str] | None:
    """Return what a line of the list of processes says: of a row with or without its bars, or of a part."""
    barred, left = re.sub(r"^(?:    |\|\|)(.*?)[ |]*$", r"|   \1 |", line), line.rstrip(" |\r\t")
    barred = re.sub(r"^(\|.*  \d{1,7}MiB)\s*$", r"\1 |", barred)  # whole, without its edge
    return (
        _PROCESS.match(barred)
        or _OLD_PROCESS.match(line)
        or _NOT_LISTED.match(barred)
        or _CUT_PROCESS.match(left)
        or _UNREAD.match(left)
        or _UNREAD.match(line)
    )


def _is_by(pattern: re.Pattern[str], found: re.Match[str]) -> bool:
    """Whether a pattern found this; a match has the library's own object for it."""
    return found.re.pattern == pattern.pattern


def _marked(process: re.Match[str]) -> str | None:
    """Return the name of a process, with dots where blanks say that a part of it was overwritten."""
    name = process.group(4)
    if name and not _is_by(_OLD_PROCESS, process) and process.start(4) - process.end(3) > _TYPE_BLANKS:
        name = f"...{name}"
    return f"{name.partition('  ')[0]}..." if name and "  " in name else name


def _processes(gpus: list[Tree], text: str) -> None:
    """Put each listed process on its GPU, by the GPU's place in the table.

    GPUs whose rows may be beyond the end of the file have no list; the list of one with more rows than can be
    read is marked (`PARTIAL`).
    """
    by_index, doubtful, unlisted = _listed(gpus, text)
    for index, gpu in enumerate(gpus):
        rows, is_absent = by_index[index], gpu.get("product_name", LOST) == LOST and "@id" not in gpu
        if index in unlisted:
            gpu["processes"] = UNLISTED
        elif rows or not (is_absent or index in doubtful):
            gpu["processes"] = {"process_info": rows}
        elif not is_absent and is_closed(text):
            gpu["processes"] = CUT
        if rows and index in doubtful:
            gpu[PARTIAL] = True


def _listed(gpus: list[Tree], text: str) -> tuple[dict[int, list[Tree]], set[int], set[int]]:
    """Return the processes of each GPU, the GPUs that may have others, and those that have no list.

    A row whose cells are cut keeps what is left of it.
    """
    by_index: dict[int, list[Tree]] = {index: [] for index in range(len(gpus))}
    doubtful, unlisted, last = set[int](), set[int](), -1
    for line in dict.fromkeys(text.split("\n")):  # none that is doubled
        match = _process_row(line)
        if match is None or int(match[1] or 0) not in by_index:
            continue
        if match[1] is None:
            doubtful.update(by_index)
            continue
        last = int(match[1])
        if _is_by(_NOT_LISTED, match):
            unlisted.add(last)
            continue
        pid, kind, _, used = (None,) * 4 if _is_by(_UNREAD, match) else match.groups()[1:]
        if _is_by(_OLD_PROCESS, match):
            kind, used = "C", f"{used}MiB"
        if pid is None or kind is None or not int(pid):
            doubtful.add(last)
            continue
        cut = "N/A" if "driver_model" in gpus[last] else CUT
        by_index[last].append(
            {"pid": pid, "type": kind, "process_name": _marked(match), "used_memory": used or cut}
        )
    if not is_closed(text):
        doubtful |= set(range(max(last, 0), len(gpus)))
    return by_index, doubtful, unlisted
