"""Of what nature each class of failure is, and so whether the same launch can end otherwise. Two tables; pure."""

from typing import Literal, TypeAlias, get_args

from preflight.diagnosis.result import Cause
from preflight.frozen import dataclass

FailureCategoryName: TypeAlias = Literal[
    "host",
    "network",
    "gpu",
    "external",
    "hang",
    "storage",
    "oom",
    "script",
    "precision",
    "crash",
    "environment",
    "unknown",
]


@dataclass(frozen=True, slots=True)
class FailureCategory:
    """One row. `passes` True: what caused it may be gone, or be left out, when the run is started again."""

    name: FailureCategoryName
    retryable: bool
    description: str


CATEGORIES: dict[FailureCategoryName, FailureCategory] = {
    row.name: row
    for row in (
        FailureCategory("host", True, "a host was lost"),
        FailureCategory(
            "network", True, "the network between the ranks failed, or one waited in vain for the others"
        ),
        FailureCategory("gpu", True, "a GPU failed"),
        FailureCategory("external", True, "something outside the run ended one of its processes"),
        FailureCategory("hang", True, "the ranks hung"),
        FailureCategory("storage", True, "a file system failed"),
        FailureCategory("oom", False, "memory ran out, and would run out again"),
        FailureCategory("script", False, "the script itself failed, and would fail again"),
        FailureCategory("precision", False, "the numbers went bad, and would again"),
        FailureCategory("crash", False, "native code crashed, which a new start seldom repairs"),
        FailureCategory(
            "environment",
            False,
            "a package, a file, a right, room or time is missing, and a person must provide it",
        ),
        FailureCategory("unknown", False, "it is not known why it failed"),
    )
}
PERMANENT: tuple[FailureCategoryName, ...] = tuple(
    name for name in get_args(FailureCategoryName) if not CATEGORIES[name].retryable
)
"""What can only fail again, unless the user says otherwise."""

# By class of failure (the slug of a signature); a code has a row where it differs from its class.
_OF: dict[str, FailureCategoryName] = {
    # one row of a class that is otherwise of another nature
    "S66": "environment",  # no usable interface, closed ports
    "S116": "external",  # processes of another launch
    "S70": "external",  # SIGKILL by another process; `certain` only when the kernel says that memory was why
    "S94": "environment",  # no permission
    # the network, the other ranks
    "nccl-network": "network",
    "nccl-system-error": "network",
    "nccl-timeout-watchdog": "network",
    "rendezvous-timeout": "network",
    # hardware
    "host-hardware": "host",
    "gpu-lost": "gpu",
    "nccl-cuda-error": "gpu",
    "storage": "storage",
    # from outside
    "port-in-use": "external",
    "preempted": "external",
    "sighup": "external",
    "terminated": "external",
    # memory
    "cuda-oom": "oom",
    "host-oom-killed": "oom",
    # the script
    "user-exception": "script",
    "bad-data": "script",
    "collective-unsupported": "script",
    "process-group": "script",
    "collective-mismatch": "script",
    "cuda-reinit-in-fork": "script",
    "ddp-unused-parameters": "script",
    "deprecated-tokenizer-arg": "script",
    "device-map-auto": "script",
    "device-mismatch": "script",
    "device-side-assert": "script",
    "invalid-device-ordinal": "script",
    "nccl-duplicate-gpu": "script",
    # numbers
    "bf16-scaler": "precision",
    "bf16-unsupported": "precision",
    "dtype-mismatch": "precision",
    "flash-attn-unsupported": "precision",
    "fp16-unscale": "precision",
    "fp8-unsupported": "precision",
    "nan-loss": "precision",
    "no-gradient": "precision",
    "precision-conflict": "precision",
    "scaler-misuse": "precision",
    "tf32-unsupported": "precision",
    # native code
    "cuda-library": "crash",
    "illegal-instruction": "crash",
    "illegal-memory-access": "crash",
    "kernel-resources": "crash",
    "segfault": "crash",
    "sigabrt": "crash",
    # what a person must provide
    "bad-checkpoint": "environment",
    "broken-interpreter": "environment",
    "container-launch": "environment",
    "device-busy": "environment",
    "disk-full": "environment",
    "driver-mismatch": "environment",
    "hf-hub-auth": "environment",
    "experiment-tracker": "environment",
    "inductor-compile": "environment",
    "missing-file": "environment",
    "missing-module": "environment",
    "nccl-p2p-unsupported": "environment",
    "nccl-version": "environment",
    "no-kernel-image": "environment",
    "package-conflict": "environment",
    "shm": "environment",
    "scheduler-launch": "environment",
    "ssh-access": "environment",
    "time-limit": "environment",
    "too-many-open-files": "environment",
    "unknown-architecture": "environment",
    # another process's words about the failed one
    "unknown": "unknown",
}


def category_of(cause: Cause) -> FailureCategory:
    """Return the nature of a cause; one of a class that the table does not know is unknown."""
    if cause.code == "S70" and cause.confidence == "certain":
        return CATEGORIES["oom"]
    return CATEGORIES[_OF.get(cause.code) or _OF.get(cause.slug, "unknown")]


def classes() -> frozenset[str]:
    """Return every class and code that the table has a row for."""
    return frozenset(_OF)
