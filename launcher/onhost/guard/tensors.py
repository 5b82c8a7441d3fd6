"""Helpers for tensors and optimizers, none of which reads another rank's values."""

from typing import Any, Iterable, Iterator


def get_local_part(tensor: Any) -> Any:
    """Return this rank's own part of a tensor, detached; reading a DTensor's values would be a collective."""
    return (tensor.to_local() if hasattr(tensor, "to_local") else tensor).detach()


def list_parameters(optimizer: Any) -> Iterator[Any]:
    """Yield the parameters of an optimizer."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.requires_grad:
                yield p


def is_fused(optimizer: Any) -> bool:
    """Return whether an optimizer steps in one kernel that requires a single dtype."""
    return any(group.get("fused") for group in optimizer.param_groups)


def find_first_cuda(tensors: Iterable[Any]) -> Any:
    """Return the first CUDA device among the tensors', None when there is none."""
    return next((each.device for each in tensors if each.device.type == "cuda"), None)


def count_values(things: Iterable[Any]) -> dict[str, int]:
    """Return the number of occurrences of each value, by its short name."""
    counts: dict[str, int] = {}
    for thing in things:
        counts[format_value(thing)] = counts.get(format_value(thing), 0) + 1
    return counts


def format_value(thing: Any) -> str:
    """Return float16 for torch.float16."""
    return str(thing).removeprefix("torch.")
