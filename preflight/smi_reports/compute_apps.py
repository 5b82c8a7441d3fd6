"""Lists of processes: the CSV of `--query-compute-apps`, `fuser` and `lsof` of the device files. Pure."""

from collections.abc import Iterable
from typing import Any

from preflight import regex as re
from preflight.leftovers.process_tree import COMM_LENGTH, SYSTEM_COMMS
from preflight.probes.fact import missing
from preflight.probes.nvidia_smi.values import CUT
from preflight.smi_reports.csv_dialects import parse_row
from preflight.smi_reports.truncated_lines import TruncatedLines

HEADER = r"^(?:[a-z_]+(?:\.[a-z_]+)*, *)*pid(?:, *[a-z_]+(?:\.[a-z_]+)*(?: \[MiB\])?)+[^\S\n]*$"
ASKED = rf"{HEADER}|--query-(?:compute-)?apps=[^\n]*\bpid\b[^\n]*\n[^\n,]{{1,80}}, "
"""What asked for the list, above it: the names of its columns, or the command with `noheader`."""

BARE_ROW = r"^[^\S\n]*[1-9]\d*, (?!\d+ %)(\[[\w/ ]+\]|[^,\n]+), (\[[\w/ ]+\]|\d+ MiB)[^\S\n]*$"
_DEVICE_FILE = re.compile(r"^/dev/nvidia(\d{1,4}):(.*(?:\n[^\S\n].*)*)", re.MULTILINE)
_MAPPED = re.compile(r"[^\S\n](\d{1,10})[^\S\n]+[.\w]{4}m[^\S\n]+(\S+)")
_OF_LSOF = re.compile(
    r"^(\S+)[^\S\n]+(\d{1,10})[^\S\n][^\n]{0,80}\bmem[^\S\n]+CHR[^\S\n][^\n]{0,80}/dev/nvidia(\d{1,4})$",
    re.MULTILINE,
)
_SYSTEM = SYSTEM_COMMS | {name[:9] for name in SYSTEM_COMMS}
"""Whole, and as lsof cuts them."""
_QUERY = re.compile(r"--query-(?:compute-)?apps=([\w.,]+)")


def strip_units(cells: list[str]) -> list[str]:
    """Return the names of a CSV's columns without their units."""
    return [re.sub(r" \[.*\]$", "", cell.strip()) for cell in cells]


def parse_rows(text: str) -> list[dict[str, str]] | None:
    """Return the rows of the last list by the names of its columns; None without a list with names."""
    lines, open_ = text.split("\n"), TruncatedLines(text)
    rows: list[dict[str, str]] | None = None
    for at, line in enumerate(lines):
        asked = _QUERY.search(line)
        if re.match(HEADER, line) or asked:
            names = strip_units((asked[1] if asked else line).split(","))
            rows = _rows(names, (lines[below] for below in range(at + 1, len(lines))), open_) or rows or []
    return rows


def _listed_pids(text: str) -> list[str]:
    """Return the pids of a list of processes, with names of its columns or without."""
    rows = parse_rows(text)
    if rows is not None:
        return list(dict.fromkeys(row["pid"] for row in rows))
    return list(dict.fromkeys(re.findall(r"^[^\S\n]*(\d{1,10}), ", text, re.MULTILINE)))


def build_facts(text: str) -> dict[str, Any]:
    """Return that the file lists processes: a GPU without one is in no such list, so it counts none."""
    pids = _listed_pids(text)
    listed = f"pid {', '.join(pids[:20])}" if pids else "none"
    return {
        "gpus": missing(f"the file lists compute processes ({listed}) and not the GPUs of the host", "error")
    }


def _rows(names: list[str], lines: Iterable[str], open_: TruncatedLines) -> list[dict[str, str]]:
    """Return the rows below a line of names, to the first line that is none; the last value may be CUT."""
    found = []
    for line in lines:
        values = parse_row(line)
        row = dict(zip(names, values, strict=False))
        if len(values) != len(names) or not row.get("pid", "").isdigit():
            break
        if row[names[-1]].isdigit() and open_.may_lack(line):
            row[names[-1]] = CUT
        found.append(row)
    return found


def parse_mappings(text: str) -> dict[int, dict[int, str]]:
    """Return {number of a device file: {pid: name}} as `fuser -v` and `lsof` list those that have one mapped.

    All that compute on a GPU have; monitors open it alone. Desktops and services of NVIDIA are left out.
    """
    found = dict[int, dict[int, str]]()
    blocks = _DEVICE_FILE.findall(text)
    rows = [(number, pid, name) for number, block in blocks for pid, name in _MAPPED.findall(block)]
    for number, pid, name in (*rows, *((number, pid, name) for name, pid, number in _OF_LSOF.findall(text))):
        if name[:COMM_LENGTH] not in _SYSTEM:
            found.setdefault(int(number), {})[int(pid)] = name
    return found
