"""`nvidia-smi -q` in words -> the tree of its XML, keys made alike ("FB Memory Usage" -> fb_memory_usage)."""

from typing import Any

from preflight import regex as re
from preflight.probes.nvidia_smi.values import CUT
from preflight.smi_reports.lost_indent import GPU, is_flat, restore_indent

Tree = dict[str, Any]

_GPU_REST = re.compile(
    r"^(?!\s*(?:[\dA-Fa-f]{4}){1,2}:)(?:G?P?U? )?[\dA-Fa-f:]{0,11}:[\dA-Fa-f]{2}()\.\d\s*$"
)
"""Such a line that lost some of its characters."""
_WHOLE = re.compile(
    r".* (?:MiB|GiB|W|C|MHz|%|mV|KB/s)|N/A|(?:Not )?Active|Enabled|Disabled|None|Default|Yes|No"
    r"|GPU-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
)
"""Values that are not the start of others."""

_LEAST_INDENT = 2
_GROUP = 4  # blanks in front of what is in no group of a GPU
_SIZE = re.compile(r"^\s*(?:Reserved|Used|Free|Used GPU Memory)\s*: \d+(?: M?i?)?$")
_NUMBER = re.compile(r"\d+(?:\.\d*)?")
_MEASURED = re.compile(r"_temp$|power_draw|power_limit|^(?:graphics|sm|gpu|memory)$")
"""Keys of which a number has a unit behind it, unless it is cut."""
_NO_UNIT = re.compile(r"\d+(?: M?i?)?")
_ATTACHED = re.compile(r"Attached GPUs\s*: (\d{1,3})\s*$")
_WITHIN = re.compile(r"[ \t]+\w[^:]* :")
_OF_GPU = re.compile(r" {4}(?!MIG Device)(\w[^:]*?)\s*(?::|$)")
_NAME = re.compile(r"^\s*Product Name\s*: ")
_CUT_BARS = re.compile(r"\|.*[^|+]$")  # of a table beside it
_ARROW = re.compile(r"\s{2,}<[-=]+\s*$")  # of an author, behind a value
_HOLE = re.compile(r"\S\s{2,}\S")  # a key that lost a word
_PART = re.compile(
    r"^Timestamp\s*: (?!.* [12]\d{3}$)"
    r"|^[^:]+ : (?:Enable|Enabl|Disable|Disabl|Defaul|Not Activ|Not Acti|Activ|Non)$"
)
"""Of a word that others do not start with, and of a time without its year."""

_UUID = re.compile(
    r"^\s*GPU UUID\s*: (?!N/A)(?!GPU-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\s*$)"
)


def parse_q(text: str) -> Tree:
    """Return the tree of a `-q` text; lines that are neither "key : value" nor a heading are left out.

    Where the text starts within a GPU, what is left of that is the first, and the tree has a key "cut".
    Raises ValueError where the depth of its lines is lost.
    """
    printed = text.split("\n")
    lines = restore_indent(text).split("\n") if is_flat(text) else printed
    # in a flat text a heading below the longest line looks like the rest of its value
    widest = max(map(len, printed)) if lines is not printed else 0
    width = _cut_width(printed)
    top: Tree = {"gpu": []}
    by_bus: dict[str, Tree] = {}
    lost = _lost_starts(lines)
    open_at: list[tuple[int, Tree]] = [(-1, top)]
    is_lost = False
    above: tuple[Tree, str] | None = None  # where the value of the line above lies
    for at, line in enumerate(lines):
        gpu = GPU.match(line) or _GPU_REST.match(line)
        if gpu or at in lost:
            bus = gpu[1] if gpu else ""
            known = {"@id": bus or CUT}
            if bus not in by_bus:  # else the line is doubled
                top["gpu"].append(known)
            known = by_bus.setdefault(bus, known) if bus else known
            open_at = [(-1, top), (0, known)]
        if gpu:
            continue
        words = line.expandtabs().lstrip(" ")
        label, colon, rest = _ARROW.sub("", words).partition(":")
        if not label.strip() or _HOLE.search(label.strip()):
            above = None
            continue
        indent, key = len(line.expandtabs()) - len(words), _key(label)
        if not colon and above is not None and (indent < _LEAST_INDENT or len(printed[at - 1]) == widest):
            _mark_open(*above)
        if not colon and indent < _LEAST_INDENT and len(open_at) > 1 and top["gpu"]:
            continue  # the rest of a long value, or what another program printed
        is_lost = indent > _GROUP and (is_lost or (" : " in rest and key != "name"))
        if is_lost:
            continue  # two lines are one, and in which group those below are is not known
        is_last = at + 1 == len(lines)  # the file ends in it: the last of whole lines is empty
        is_cut = (
            rest.startswith("  ") or len(printed[at]) == width or _is_cut(key, rest.strip(), is_last=is_last)
        )
        value = (CUT if is_cut else rest.strip()) if colon else None
        if indent == 0 and len(open_at) > 1 and top["gpu"]:
            open_at = open_at[:1]  # a line of the top level ends the GPU
        while open_at[-1][0] >= indent:
            open_at.pop()
        inside = open_at[-1][1]
        _place(open_at, indent, key, value)
        above = (inside, key) if isinstance(inside.get(key), str) else None
    for gpu_tree in top["gpu"]:
        _mark_cut_groups(gpu_tree)
    top |= {"cut": True} if lost and "attached_gpus" not in top else {}
    return top


def _lost_starts(lines: list[str]) -> set[int]:
    """Return where the lines of GPUs start whose first one is lost: of fewer than are attached.

    In what is read as one GPU a key comes again; a text without their number may start within one.
    """
    said = next(filter(None, map(_ATTACHED.match, lines)), None)
    shown = {at for at, line in enumerate(lines) if GPU.match(line) or _GPU_REST.match(line)}
    if said is None:
        return {*[at for at in range(min(shown, default=0)) if _WITHIN.match(lines[at])][:1]}
    found, seen = set[int](), {""}
    for at, line in enumerate(lines if int(said[1]) > len(shown) else ()):
        key = _OF_GPU.match(line) if line != lines[at - 1] else None  # and no line that is doubled
        is_next = key and (seen == {""} or key[1] in seen) and len(shown) + len(found) < int(said[1])
        found |= {at} if is_next else set()
        seen = set() if is_next or at in shown else seen
        seen |= {key[1]} if key else set()
    return found


def _is_cut(key: str, value: str, *, is_last: bool) -> bool:
    """Whether a value may lack its end: the last of a text, or a measured number without its unit."""
    is_bare = _NUMBER.fullmatch(value) is not None and _MEASURED.search(key) is not None
    return is_bare or (is_last and not _WHOLE.fullmatch(value))


def _mark_cut_groups(gpu: Tree) -> None:
    """Mark modes, sizes and processes of a GPU of which a part is missing."""
    modes = gpu.get("mig_mode")
    if isinstance(modes, dict) and "current" in modes:
        modes.setdefault("pending", CUT)
    _mark_cut_sizes(gpu.get("fb_memory_usage"), ("total", "reserved", "used", "free"))
    _mark_cut_processes(gpu)


def _mark_open(inside: Tree, key: str) -> None:
    """Mark a value as cut below which a line is that may be the rest of it."""
    if not _WHOLE.fullmatch(inside[key]):
        inside[key] = CUT


def _cut_width(lines: list[str]) -> int:
    """Return the length at which all lines are cut, else 0.

    A UUID, a size, a time or a word shows it that is not whole, or a name that is as long as another of the
    longest lines whose value may continue.
    """
    width = max(map(len, lines))
    at_end = [line for line in lines if len(line) == width]
    if any(
        _CUT_BARS.match(line) or _UUID.match(line) or _SIZE.match(line) or _PART.match(line)
        for line in at_end
    ):
        return width
    unended = {line for line in at_end if not _WHOLE.fullmatch(line.partition(" : ")[2].rstrip())}
    return width if len(unended) > 1 and any(map(_NAME.match, unended)) else 0


def _mark_cut_sizes(group: Any, names: tuple[str, ...]) -> None:
    """Mark sizes as cut that lack their unit, or a part of it."""
    for name in names if isinstance(group, dict) else ():
        if isinstance(group.get(name), str) and _NO_UNIT.fullmatch(group[name]):
            group[name] = CUT


def _mark_cut_processes(gpu: Tree) -> None:
    """Leave out a list of processes that is cut before the first, and memory where it is cut in one."""
    listed = gpu.get("processes")
    if not isinstance(listed, dict):
        return
    found = listed.get("process_info")
    for process in found if isinstance(found, list) else ():
        _mark_cut_sizes(process, ("used_gpu_memory",))
    if not found:
        del gpu["processes"]
    elif isinstance(found, list) and "used_gpu_memory" not in found[-1]:
        gpu.pop("fb_memory_usage", None)


def _place(open_at: list[tuple[int, Tree]], indent: int, key: str, value: str | None) -> None:
    inside = open_at[-1][1]
    if key == "process_id" and value is not None:
        if "@id" in inside:  # and not under "Processes", as the blanks in front of the lines say
            raise ValueError("the blanks in front of its lines are not those of nvidia-smi")
        process: Tree = {"pid": value}
        known = inside.setdefault("process_info", [])
        if isinstance(known, list):  # else the text has a heading of that name, as nvidia-smi never has
            known.append(process)
        open_at.append((indent, process))
    elif value is None:
        group = inside.get(key)
        if isinstance(group, list):
            group = {}  # a heading with the name of a list of ours takes nothing away from that
        elif not isinstance(group, dict):
            group = inside[key] = {}
        open_at.append((indent, group))
    else:
        inside.setdefault(key, value)
        open_at.append((indent, inside))  # "HW Slowdown : Active" has lines below it that belong beside it


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.strip().lower()).strip("_")
