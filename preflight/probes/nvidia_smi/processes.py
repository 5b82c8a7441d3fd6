"""The processes that nvidia-smi lists on a GPU."""

from typing import Any

from ..fact import Json
from .values import NOT_HELD, convert_value, find_text, find_value, parse_whole, reject_wording

_MPS_SERVER = "nvidia-cuda-mps-server"
_LEAST_OF_MPS = "nvidia-cuda-"


def parse_processes(gpu: Json) -> Any:
    """Return the list of facts.ComputeProcess."""
    group = gpu.get("processes")
    if group is None:
        return NOT_HELD
    if isinstance(group, str):
        return [] if group in ("", "None") else convert_value(group, reject_wording)
    if not isinstance(group, dict):  # a damaged file has the element twice
        return reject_wording(str(group))
    listed = group.get("process_info", [])
    found, unread = dict[int, list[Json]](), None
    for process in listed if isinstance(listed, list) else [listed]:
        pid = find_value(process, parse_whole, "pid")
        if not isinstance(pid, int):
            unread = pid
            continue
        used = find_value(process, parse_whole, "used_memory", "used_gpu_memory")
        name = find_value(process, str, "process_name", "name")
        letters = find_text(process, "type")
        kind = _kind(
            letters if isinstance(letters, str) and set("CGM+") >= set(letters) > set() else "C", used, name
        )
        row = {"pid": pid, "kind": kind, "used_mib": used, "name": name}
        if row not in found.setdefault(pid, [])[-1:]:  # and no line that is doubled
            found[pid].append(row)
    if unread is not None and not found:
        return unread
    return [row for pid in sorted(found) for row in found[pid]]


def _kind(letters: str, used: Any, name: Any) -> str:
    """Return what a process does on the GPU, by nvidia-smi's letters.

    A desktop's own programs are C+G without a figure of memory (Windows prints N/A for all of them); an MPS
    server computes nothing itself. A program whose figure a file cuts may be one that computes.
    """
    if letters.startswith("M") or is_mps_server(name):
        return "mps"
    is_cut = isinstance(used, dict) and used["code"] == "not-asked"
    if "C" not in letters or ("G" in letters and not isinstance(used, int) and not is_cut):
        return "graphics"
    return "compute"


def is_mps_server(name: Any) -> bool:
    """Whether a name is that of an MPS server, which a table may cut."""
    base = name.rpartition("/")[2] if isinstance(name, str) else ""
    return base.startswith(_LEAST_OF_MPS) and _MPS_SERVER.startswith(base.rstrip("."))
