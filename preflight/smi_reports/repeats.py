"""Several recordings in one file: of one host the last counts, those of several hosts are refused. Pure."""

import re
from typing import Any

Tree = dict[str, Any]
_UUID = re.compile(r"GPU-\S+")
_MEMORY = re.compile(r"\d+(?: Mi?B)?")
_LOST = "GPU is lost"


def latest(trees: list[Tree]) -> int:
    """Return the place of the last recording that has as many GPUs as any, of trees of one host.

    A recording that is cut has fewer GPUs than those before it. Raises ValueError where a GPU of one
    recording is not that of another, by UUID, bus, name or memory.
    """
    ids = [[_identity(gpu) for gpu in _gpus(tree)] for tree in trees]
    longest = max(ids, key=len)
    for each in ids:
        for one, other in zip(each, longest, strict=False):
            if any(map(_differ, one, other)):
                message = f"it holds {len(trees)} recordings of different hosts"
                raise ValueError(f"{message}, and each needs a file of its own")
    return max(place for place, each in enumerate(ids) if len(each) == len(longest))


def _gpus(tree: Tree) -> list[Tree]:
    gpus = tree.get("gpu", [])
    return [gpu for gpu in (gpus if isinstance(gpus, list) else [gpus]) if isinstance(gpu, dict)]


def _differ(left: str, right: str) -> bool:
    """Whether two values are not the same, of which one may be cut."""
    return not (left.startswith(right) or right.startswith(left))


def _identity(gpu: Tree) -> tuple[str, ...]:
    """Return what stays the same of a GPU; "" for what a recording does not say, or cuts short."""
    pci, memory = gpu.get("pci"), gpu.get("fb_memory_usage")
    uuid, name = str(gpu.get("uuid", "")), str(gpu.get("product_name", ""))
    bus = gpu.get("@id") or (pci.get("bus_id") if isinstance(pci, dict) else None)
    total = str(memory.get("total", "")) if isinstance(memory, dict) else ""
    return (
        uuid if _UUID.fullmatch(uuid) else "",
        str(bus or "").lower(),
        "" if name == _LOST or "..." in name else name,
        total if _MEMORY.fullmatch(total) else "",
    )
