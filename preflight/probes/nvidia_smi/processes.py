"""The processes that nvidia-smi lists on a GPU."""

from __future__ import annotations

from typing import Any

from ..fact import Json
from .values import NOT_HELD, find, not_understood, value_at, value_of, whole


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
        kind = find(process, "type") or "C"
        used = value_at(process, whole, "used_memory", "used_gpu_memory")
        found += [
            {
                "pid": pid,
                "kind": "mps" if kind.startswith("M") else "compute" if "C" in kind else "graphics",
                "used_mib": used,
                "name": value_at(process, str, "process_name", "name"),
            }
        ]
    return sorted(found, key=lambda process: int(process["pid"]))
