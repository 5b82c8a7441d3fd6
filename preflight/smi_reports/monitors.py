"""What `topo -m`, `dmon` and `pmon` print, for the GPUs, readings and processes that they name. Pure.

None of them says what a GPU is: what they lack stays unknown. dmon and pmon print state after state, and the
last whole one counts; by default they watch no more than 4 GPUs (16 since driver 470); more may exist.
"""

from collections.abc import Iterator
from typing import Any

from preflight import regex as re
from preflight.probes.nvidia_smi.values import CUT
from preflight.smi_reports.table import KIND, MAX_GPUS
from preflight.smi_reports.wrapped_lines import MONITOR

Tree = dict[str, Any]

_DEVICES = r"^[^\S\n]*GPU0(?:[^\S\n]+(?:GPU\d{1,2}|NIC\d{1,2}|mlx\w+|(?!mlx)\w+_\d{1,2}))*"
TOPOLOGY = rf"{_DEVICES}(?:[^\S\n]+CPU Affinity|(?=[^\S\n]*\n[^\S\n]*GPU0[^\S\n]+X\b))"
"""Its first line; that of `topo -p2p` names devices alone, like one that was edited."""
_ROW = re.compile(r"^[^\S\n]*GPU(\d{1,2})[^\S\n]+\S", re.MULTILINE)
_VALUE = re.compile(r"-|-?\d{1,12}(?:\.\d+)?|0x[0-9a-f]+|[\d:]{8}")
_READINGS = {
    # column of dmon -> its place in the tree of -q -x
    "pwr": "power_readings/power_draw",
    "gtemp": "temperature/gpu_temp",
    "temp": "temperature/gpu_temp",
    "sm": "utilization/gpu_util",
    "pclk": "clocks/sm_clock",
    "fb": "fb_memory_usage/used",
}
_CUT_ROW = "@cut"  # key of a row that is cut
_REST_OF_NAMES = re.compile(r"[^\S\n]*(?!#)[a-z]")
_TIMES = ("date", "time")
_ROW_END = re.compile(
    r"(?<=\S)(?<!:\d\d)(?<!\d{8})[^\S\n]{4,}"
    r"(?=(?:\d{8}\s+)?(?:[\d:]{8}\s+)?\d{1,2}\s+\d{1,10}\s+[CGM][+CGM]*\s)"
)
"""Between two rows of processes whose line end is lost."""
_KIND = re.compile(KIND)
_NAME_WIDTH = 15  # of a process's name in pmon; blanks follow a shorter one, unless cut
_PADDED = re.compile(r"\s*\d[^\n]* $")
_VALUES = re.compile(r"(?:-|\d+)\s{2,}\S")


def parse_topology(text: str) -> Tree:
    """Return the GPUs of the matrix of `topo -m`; raises ValueError where their numbers are of no host."""
    head = re.search(TOPOLOGY, text, re.MULTILINE)
    columns = [int(number) for number in re.findall(r"\bGPU(\d{1,2})\b", head[0])] if head else []
    rows = {int(number) for number in _ROW.findall(text[head.end() :] if head else text)}
    count = max([*columns, *rows, -1]) + 1
    if not columns or count > MAX_GPUS or columns != list(range(len(columns))):
        raise ValueError("the columns of its matrix are not GPU0, GPU1 and so on")
    return {"gpu": [{} for _ in range(count)]}


def parse_monitor(text: str) -> tuple[Tree, bool]:
    """Return the GPUs of `dmon` or `pmon`, and whether it lists processes.

    Raises ValueError where no line has the values of its columns, or where a terminal wrapped their names.
    """
    lines = _ROW_END.sub("\n", text).split("\n")
    start = next(at for at, line in enumerate(lines) if re.match(MONITOR, line, re.IGNORECASE))
    if _REST_OF_NAMES.match("".join(lines[start + 1 : start + 2])):
        raise ValueError("its lines are wrapped, and which of its values is in which column is not known")
    names = re.split(r"[,\s]+", lines[start].lstrip("# \t").strip().lower())
    rows = list(_rows([*filter(str.strip, lines[start + 1 :])], names))
    whole = [row for row in rows if _CUT_ROW not in row]
    if not whole:
        raise ValueError("it has the names of columns and no values")
    gpus: list[Tree] = [{} for _ in range(max(int(row["gpu"]) for row in whole) + 1)]
    if "pid" in names:
        _add_processes(gpus, _last_state([row for row in rows if int(row["gpu"]) < len(gpus)]))
        return {"gpu": gpus}, True
    for row in rows:
        for name, path in _READINGS.items():
            if row.get(name, "-") != "-":
                group, key = path.split("/")
                gpus[int(row["gpu"])].setdefault(group, {})[key] = row[name]
    return {"gpu": gpus}, False


def _rows(lines: list[str], names: list[str]) -> Iterator[dict[str, str]]:
    """Yield the values of each line by the names of their columns, of a process that is cut its GPU."""
    last = len(names) - 1
    is_named = names[-1] in ("command", "name")
    is_padded = is_named and any(map(_PADDED.match, lines))
    for line in lines:
        bare = line.strip().lstrip("# \t")  # an author may comment out what he quotes
        values = re.split(r"[ \t]*,[ \t]*|[ \t]+", bare, maxsplit=last if is_named else 0)
        if len(values) != len(names):
            if names[:2] == ["gpu", "pid"] and values[0].isdigit() and int(values[0]) < MAX_GPUS:
                whole = values[1:-1]  # and the last value may lack its end
                kinds = [*filter(_KIND.fullmatch, whole[1:2])]
                yield {"gpu": values[0], "pid": (*whole, line)[0], "type": (*kinds, "C")[0], _CUT_ROW: ""}
            continue
        is_open = is_padded and line.endswith(values[-1]) and line is not lines[-1]
        if is_open and len(values[-1]) < _NAME_WIDTH:
            values[-1] += "..."
        row = dict(zip(names, values, strict=True))
        numbers = values[:last] if is_named else values
        plain = [value for name, value in zip(names, numbers, strict=False) if name != "type"]
        is_gpu = row["gpu"].isdigit() and int(row["gpu"]) < MAX_GPUS
        if is_gpu and all(map(_VALUE.fullmatch, plain)) and _agrees(row):
            yield row


def _agrees(row: dict[str, str]) -> bool:
    """Whether the values of a row agree: a process has a type and a name, and where none is all is empty."""
    if _VALUES.match(row.get("command", "")):
        return False  # the line of names lacks some
    if "pid" not in row or "type" not in row:
        return True
    if row["pid"].isdigit():
        return _KIND.fullmatch(row["type"]) is not None
    return {value for name, value in row.items() if name != "gpu" and name not in _TIMES} == {"-"}


def _last_state(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the rows of the last state that has as many GPUs as any: its numbers start again."""
    states: list[list[dict[str, str]]] = []
    seen: set[tuple[str, str]] = set()
    for row in rows:
        place = (row["gpu"], row["pid"])
        if not states or int(row["gpu"]) < int(states[-1][-1]["gpu"]) or place in seen:
            states.append([])
            seen.clear()
        seen.add(place)
        states[-1].append(row)
    most = max(len({row["gpu"] for row in state}) for state in states)
    return next(state for state in reversed(states) if len({row["gpu"] for row in state}) == most)


def _add_processes(gpus: list[Tree], rows: list[dict[str, str]]) -> None:
    """Put processes on their GPUs; one whose only rows are cut has no known list."""
    for row in rows:
        group = gpus[int(row["gpu"])].setdefault("processes", {"process_info": []})
        if row["pid"].isdigit():
            used = row.get("fb", "")
            process = {
                "pid": row["pid"],
                "type": row.get("type", "C"),
                "process_name": row.get("command", row.get("name")) or None,
                "used_memory": f"{used} MiB" if used.isdigit() else None,
            }
            group["process_info"].append(process)
    for index in {int(row["gpu"]) for row in rows if _CUT_ROW in row}:
        if not gpus[index]["processes"]["process_info"]:
            gpus[index]["processes"] = CUT
