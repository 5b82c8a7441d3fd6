"""torch without tensors that are sharded over ranks, for trainings that shard none.

accelerate imports torch.distributed.tensor to ask whether something is a DTensor. That import, with the
algebra system that it brings, takes two thirds of torch's own. FSDP needs the real one, and so does
transformers, which imports FSDP.
"""

import sys
from types import ModuleType
from typing import Any


class DTensor:
    """What no tensor of these trainings is."""


class Placement:
    """How a DTensor would lie over the ranks."""


def distribute_tensor(*_: object, **__: object) -> None:
    """Refuse: a training that shards tensors runs without this shim."""
    raise NotImplementedError


def turn_on(_: ModuleType) -> None:
    """Stand in for torch.distributed.tensor, right after torch.distributed was imported."""
    tensor: Any = ModuleType("torch.distributed.tensor")
    placements: Any = ModuleType("torch.distributed.tensor.placement_types")
    tensor.DTensor, tensor.distribute_tensor = DTensor, distribute_tensor
    for name in ("Placement", "Partial", "Replicate", "Shard", "_StridedShard"):
        setattr(placements, name, Placement)
        setattr(tensor, name, Placement)
    for module in (tensor, placements):
        sys.modules.setdefault(module.__name__, module)
