"""The processes that nvidia-smi lists on a GPU."""

from typing import Any

from ..fact import Json
from .values import NOT_HELD, find, not_understood, value_at, value_of, whole

MPS_SERVER = "nvidia-cuda-mps-server"


def processes(gpu: Json) -> Any:
    """Return the list of facts.ComputeProcess."""
    group = gpu.get("processes")
    if group is None:
        return NOT_HELD
    if isinstance(group, str):
        return [] if group in ("", "None") else value_of(group, not_understood)
    listed = group.get("process_info", [])
    found = []
    for process in listed if isinstance(listed, list) else [listed]:
        pid = value_at(process, whole, "pid")
        if not isinstance(pid, int):
            continue
        used = value_at(process, whole, "used_memory", "used_gpu_memory")
        name = value_at(process, str, "process_name", "name")
        kind = _kind(find(process, "type") or "C", used, name)
        found += [{"pid": pid, "kind": kind, "used_mib": used, "name": name}]
    return sorted(found, key=lambda process: int(process["pid"]))


def _kind(letters: str, used: Any, name: Any) -> str:
    """Return what a process does on the GPU, by nvidia-smi's letters.

    A desktop's own programs are C+G without a figure of memory (Windows prints N/A for all of them); an MPS
    server computes nothing itself.
    """
    if letters.startswith("M") or (isinstance(name, str) and name.endswith(MPS_SERVER)):
        return "mps"
    if "C" not in letters or ("G" in letters and not isinstance(used, int)):
        return "graphics"
    return "compute"
