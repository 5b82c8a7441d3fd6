"""What gpustat prints, in rows and as JSON -> the tree of nvidia-smi's XML, for what it says of GPUs. Pure.

Its "MB" and "M" are MiB. A process without `--show-pid` is a user with memory: that GPU is held, and by which
pid is not known. Whether a process computes or draws it never says, so only the desktop's own draw.
"""

import json
from typing import Any

from preflight import regex as re
from preflight.leftovers.process_tree import SYSTEM_NAMES
from preflight.smi_reports.query_csv import build_gpu
from preflight.smi_reports.table import MAX_GPUS
from preflight.smi_reports.truncated_lines import TruncatedLines

Tree = dict[str, Any]

_BARS = r"(?: \[[| ]+\])?"  # of the memory in use: proposed in wookayin/gpustat issue 140
ROW = rf"^\[\d{{1,2}}\] [^|\n]{{1,80}}\|[^|\n]{{1,80}}\|{_BARS}[^|\n]{{0,20}} / +\d+ MB(?: *\||[^\S\n]*$)"
JSON = r'"query_time"\s*:[^\n]{0,100}\n?\s*"gpus"\s*:\s*\['
_ROW = re.compile(
    r"^\[(\d{1,2})\] ([^|\n]{1,80}?) *\|([^|\n]*)\|" + _BARS + r"([^|\n]*)(?:\|([^\n]*))?$", re.MULTILINE
)
_GAP = re.compile(r"[\s,]*(?=\{)")
_CUT_ROW = re.compile(r"^\[(\d{1,2})\] \S[^\n]*\Z", re.MULTILINE)
HEAD = (
    r"^([A-Za-z0-9][\w.-]{0,252})[ \t]{1,20}[^\n|]{0,60}?\d\d:\d\d:\d\d[^\n|]{0,40}?"
    r"(?:[ \t](\d{3}\.[\d.]{1,12}))?[ \t]*\n(?=\[\d+\] )"
)
"""Host, time in the words of its locale, and the driver."""
_READINGS = re.compile(r"\s*(\d{1,3})(?:\u00c2?[\u00b0']|\ufffd{1,2})?C(?:,\s*(\d{1,3}) %)?")
_POWER = re.compile(r"(\d{1,5}) /\s*(\d{1,5}) W")
_MEMORY = re.compile(r"\s*(\d{1,12}) /\s*(\d{1,12}) MB\s*")
_PROCESS = re.compile(r"([^\s()\ufffd]{1,200})\((\d{1,12}|\?+)M\)")
_PID = re.compile(r"(?:[^/:]*:)?([^/]*)/(\d{1,10})")
_FULL_COMMAND = re.compile(
    r"^[^\S\n]*\+-+[^\S\n]*(\d{1,10})[^\S\n]+\([^\S\n]*\d{1,6}%,[^()\n]{1,12}\): (\S+)", re.MULTILINE
)
"""A line below a row (`--show-full-cmd`), in the order of the row's processes."""
_NOT_LISTED = "(Not Supported)"
_SHOWN = ("pid", "command", "gpu_memory_usage")


def parse_rows(text: str) -> tuple[Tree, dict[int, str]]:
    """Return the tree of gpustat's rows, and by number of a GPU why its list of processes is not known.

    Of a text of several states the last row of each GPU counts.
    """
    found = {int(match[1]): match for match in _ROW.finditer(text) if int(match[1]) < MAX_GPUS}
    cut = _CUT_ROW.search(text)
    head = re.search(HEAD, text, re.MULTILINE)
    tree: Tree = {"gpu": [{} for _ in range(max(found, default=-1) + 1)]}
    if head and head[2] and not TruncatedLines(text).may_lack(head[0].rstrip("\n")):
        tree["driver_version"] = head[2]
    unlisted: dict[int, str] = {}
    for index, match in found.items():
        _, name, readings, memory, listed = match.groups()
        tree["gpu"][index] = gpu = _gpu(name, readings, memory)
        below = text[match.end() :].partition("\n[")[0]
        gpu["processes"], unlisted[index] = _processes(listed, _FULL_COMMAND.findall(below))
    tree["gpu"] += [{}] if cut and int(cut[1]) == len(tree["gpu"]) < MAX_GPUS else []
    return tree, {index: reason for index, reason in unlisted.items() if reason}


def _gpu(name: str, readings: str, memory: str) -> Tree:
    gpu: Tree = {"product_name": re.sub(r"^\(\((.*)\)\)$", r"\1", name)}  # ((Unknown Error))
    read, power, sizes = _READINGS.match(readings), _POWER.search(readings), _MEMORY.fullmatch(memory)
    if read:
        gpu["temperature"] = {"gpu_temp": read[1]}
        gpu["utilization"] = {"gpu_util": read[2] or ""}
    if power:
        gpu["power_readings"] = {"power_draw": power[1], "power_limit": power[2]}
    if sizes:
        gpu["fb_memory_usage"] = {"used": sizes[1], "total": sizes[2]}
    return gpu


def _processes(listed: str | None, below: list[tuple[str, str]]) -> tuple[Tree | str, str]:
    """Return the processes behind a row, or why they are not known; `below` are pids with their commands."""
    if listed is None:
        return "", "the row is cut before its processes"
    if _NOT_LISTED in listed:
        return "N/A", ""
    if _PROCESS.sub("", listed).strip():
        return "", f"the row is cut within its processes: {' '.join(listed.split())[:200]}"
    commands, rows = dict(below), [(_PID.fullmatch(words), used) for words, used in _PROCESS.findall(listed)]
    if all(named for named, _ in rows):
        found = [(named[2], commands.get(named[2], named[1]), used) for named, used in rows if named]
    elif len(below) == len(rows):
        found = [(pid, name, used) for (pid, name), (_, used) in zip(below, rows, strict=True)]
    else:
        said = " ".join(listed.split())[:200]
        return "", f"gpustat prints no pid (--show-pid) of what holds it: {said}"
    return {"process_info": [_process(*each) for each in found]}, ""


def _process(pid: str, name: str, used: str) -> Tree:
    draws = name.rpartition("/")[2] in SYSTEM_NAMES
    size = used if used.isdigit() else "N/A"
    return {"pid": pid, "process_name": name or None, "used_memory": size, "type": "G" if draws else "C"}


def parse_document(text: str) -> Tree:
    """Return the tree of the last `gpustat --json`, the whole GPUs of a cut one. Raises ValueError."""
    start = [match.end() for match in re.finditer(JSON, text)][-1]
    version = re.findall(r'"driver_version"\s*:\s*"([\d.]+)"', text[:start])
    gpus: list[Tree] = []
    decoder = json.JSONDecoder()
    while gap := _GAP.match(text, start):
        try:
            entry, start = decoder.raw_decode(text, gap.end())
        except (ValueError, RecursionError):
            gpus += [{}] if gpus else []  # the one within which it is cut
            break
        index = entry.get("index")
        place = index if isinstance(index, int) and len(gpus) <= index < MAX_GPUS else len(gpus)
        gpus += [{} for _ in range(place - len(gpus))] + [_json_gpu(entry)]
    if not gpus:
        raise ValueError("its list of GPUs is empty or cut")
    return {"gpu": gpus[:MAX_GPUS], **({"driver_version": version[-1]} if version else {})}


def _json_gpu(entry: Tree) -> Tree:
    listed = entry.get("processes", ())
    gpu = build_gpu({name: _text(value) for name, value in entry.items()})
    if isinstance(listed, list):
        said = [[_text(each.get(key, "")) for key in _SHOWN] for each in listed if isinstance(each, dict)]
        gpu["processes"] = {"process_info": [_process(*values) for values in said]}
    elif listed is None:
        gpu["processes"] = "N/A"
    return gpu


def _text(value: object) -> str:
    """Return a value as nvidia-smi would print it: what has none is N/A."""
    return str(value) if isinstance(value, str | int | float) else "N/A"
