"""What nvitop prints, as the table of nvidia-smi that its panel of devices is modelled on. Pure.

It rounds sizes from 20 GiB on to hundredths of a GiB. Its list of processes is cut at the height of the
terminal, so a GPU without a row in it may be in use.
"""

from typing import Any

from preflight import regex as re
from preflight.smi_reports.table import MAX_GPUS, add_readings, parse_table

Tree = dict[str, Any]

HEAD = (
    r"^(?:(?:\|[^\S\n]*)?NVITOP [\d.]+[^\S\n]+Driver Version:"
    r"|\|[^\S\n]*NVIDIA-SMI [^\n]*\n(?:[^\n]*\n){3,5}[+|](?:=+\+){4})"
)
"""Its first versions print nvidia-smi's, and a fourth column of bars as well."""
_HEAD = re.compile(HEAD, re.MULTILINE | re.IGNORECASE)
_SIZE = re.compile(r"(?<![\w.])(\d{1,6}(?:\.\d{1,2})?)([GMK]iB)")
_MIB = {"GiB": 1024, "MiB": 1, "KiB": 1 / 1024}
_COMPACT = re.compile(
    r"^\|[^\S\n]+(\d{1,3})[^\S\n]+(\S+[^\S\n]+[\dN]\S*[^|\n]*)\|([^|\n]*)\|([^|\n]*)\|", re.MULTILINE
)
"""A GPU in the compact view, which leaves out names and buses."""
_PROCESS = re.compile(
    r"^\|[^\S\n]+(\d{1,3})(?::\d{1,3})?[^\S\n]+(\d{1,10})[^\S\n]+([CGX])[^\S\n]+\S{1,40}[^\S\n]+"
    r"(\d{1,9}MiB|N/A)[^\S\n]+(?:\S{1,9}[^\S\n]+){2,3}(?:\d+[\d:.]*|\d[\d.]* days)[^\S\n]+([^\s|][^|\n]*)",
    re.MULTILINE,
)
_CELLS = 3  # behind them are bars of the load


def parse_nvitop(text: str) -> tuple[Tree, bool]:
    """Return the last state's tree, and whether no process runs; a GPU without a row has no list in it."""
    start = [found.start() for found in _HEAD.finditer(text)][-1]
    text = _SIZE.sub(_in_mib, text[start:].replace(" 0B / ", " 0MiB / "))
    text = text.replace("CUDA Driver Version", "CUDA Version")
    devices, _, listed = text.partition("Processes:")
    tree = parse_table("\n".join(map(_narrow, devices.split("\n"))))
    for number, *cells in _COMPACT.findall(devices) if not tree["gpu"] else ():
        if len(tree["gpu"]) <= int(number) < MAX_GPUS:
            tree["gpu"] += [{} for _ in range(int(number) + 1 - len(tree["gpu"]))]
            add_readings(tree["gpu"][-1], cells)
    for index, pid, letter, used, command in _PROCESS.findall(listed):
        if int(index) < len(tree["gpu"]):
            group = tree["gpu"][int(index)].setdefault("processes", {"process_info": []})
            kind = {"X": "C+G"}.get(letter, letter)
            name = command.split(maxsplit=1)[0]
            group["process_info"].append(
                {"pid": pid, "type": kind, "process_name": name, "used_memory": used}
            )
    return tree, "No running processes found" in listed


def _in_mib(found: re.Match[str]) -> str:
    return f"{round(float(found[1]) * _MIB[found[2]])}MiB".rjust(len(found[0]))


def _narrow(line: str) -> str:
    """Return a row without the bars of the load behind it."""
    cells = line.split("|")
    return "|".join(cells[: _CELLS + 1]) + "|" if len(cells) > _CELLS + 2 else line
