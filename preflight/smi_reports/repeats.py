"""Several recordings in one file: of one host the last counts, those of several are separated. Pure."""

import re
from typing import Any

Tree = dict[str, Any]
_UUID = re.compile(r"GPU-\S+")
_MEMORY = re.compile(r"\d+(?: Mi?B)?")
_LOST = "GPU is lost"


class DifferentHostsError(ValueError):
    """A text holds recordings of hosts that it does not name; `texts` has those of each."""

    def __init__(self, count: int, texts: list[str]) -> None:
        super().__init__(f"it holds {count} recordings of different hosts, and each needs a file of its own")
        self.texts = texts


def latest(trees: list[Tree], texts: list[str]) -> int:
    """Return the place of the last recording that has as many GPUs as any, of trees of one host.

    A recording that is cut has fewer GPUs than those before it. Raises DifferentHostsError where a GPU of one
    recording is not that of another, by UUID, bus, name or memory; `texts` are those of the trees.
    """
    ids = [[_identity(gpu) for gpu in _gpus(tree)] for tree in trees]
    groups = list[list[int]]()
    for place, each in enumerate(ids):
        known = next((group for group in groups if all(_are_one(ids[at], each) for at in group)), None)
        if known is None:
            groups.append([place])
        else:
            known.append(place)
    if len(groups) > 1:
        raise DifferentHostsError(len(trees), ["\n".join(texts[at] for at in group) for group in groups])
    longest = max(map(len, ids))
    return max(place for place, each in enumerate(ids) if len(each) == longest)


def _are_one(left: list[tuple[str, ...]], right: list[tuple[str, ...]]) -> bool:
    """Whether two lists may be of the same GPUs."""
    pairs = zip(left, right, strict=False)
    return not any(_differ(*values) for one, two in pairs for values in zip(one, two, strict=True))


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
