"""A value that may be absent, and then carries the reason why."""

from typing import Literal, TypeAlias, TypeVar

from preflight.frozen import dataclass

T = TypeVar("T")

MissingCode: TypeAlias = Literal[
    "error",  # the probe failed; the reason holds its words
    "timeout",  # given up after its deadline
    "not-supported",  # the hardware or driver does not have this value; normal on many GPUs
    "no-permission",
    "not-found",  # no such file, package, device
    "not-asked",  # the request did not ask for it, or this source does not hold it
    "no-library",  # NVML cannot be loaded (no driver installed)
    "not-loaded",  # driver module not loaded or not communicating
    "library-mismatch",  # NVML and kernel module versions differ
    "no-devices",
    "gpu-lost",
    "reset-required",
]


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that was not read, and why. Unknown is never reported as fine."""

    reason: str
    code: MissingCode = "error"


Fact: TypeAlias = T | Missing
