"""How much memory was free on a host a moment before something failed on it."""

from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """What the gauge measured `age_s` before the failure. None: not measured."""

    age_s: float
    gpu_free_mib: float | None  # of the GPU of the rank that failed
    shm_free_mib: float | None  # of /dev/shm
