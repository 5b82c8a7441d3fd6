"""Memory measurements of a rehearsal, and the dtypes of optimizer states."""

import contextlib
import os
from typing import Any, Iterable

from ..tensors import histogram


def memory_stats(torch: Any, device: Any) -> dict[str, Any]:
    """Return peak and total memory in MiB: the GPU's, and this process's own."""
    import resource

    found: dict[str, Any] = {"rss_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}
    with contextlib.suppress(OSError, ValueError):
        found["host_total_mib"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    if device is not None:
        free, total = torch.cuda.mem_get_info(device)
        found["gpu_peak_allocated_mib"] = torch.cuda.max_memory_allocated(device) >> 20
        found["gpu_peak_reserved_mib"] = torch.cuda.max_memory_reserved(device) >> 20
        found["gpu_total_mib"] = total >> 20
        found["gpu_free_mib"] = free >> 20
    return found


def state_dtypes(torch: Any, optimizers: Iterable[Any]) -> dict[str, int]:
    """Return the dtypes of the optimizers' per-element state."""
    return histogram(
        value.dtype
        for optimizer in optimizers
        for moments in optimizer.state.values()
        if isinstance(moments, dict)
        for value in moments.values()
        if isinstance(value, torch.Tensor) and value.dim() > 0
    )
