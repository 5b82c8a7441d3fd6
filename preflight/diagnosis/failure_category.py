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
_OF_CLASSES: dict[FailureCategoryName, tuple[str, ...]] = {
    "network": ("nccl-network", "nccl-system-error", "nccl-timeout-watchdog", "rendezvous-timeout"),
    "host": ("host-hardware",),
    "gpu": ("gpu-lost", "nccl-cuda-error"),
    "storage": ("storage",),
    "external": ("port-in-use", "preempted", "sighup", "terminated"),
    "oom": ("cuda-oom", "host-oom-killed"),
    "script": (
        *("user-exception", "bad-data", "collective-unsupported", "process-group", "collective-mismatch"),
        *("cuda-reinit-in-fork", "ddp-unused-parameters", "deprecated-tokenizer-arg", "device-map-auto"),
        *("device-mismatch", "device-side-assert", "invalid-device-ordinal", "nccl-duplicate-gpu"),
    ),
    "precision": (
        *("bf16-scaler", "bf16-unsupported", "dtype-mismatch", "flash-attn-unsupported", "fp16-unscale"),
        *("fp8-unsupported", "nan-loss", "no-gradient", "precision-conflict", "scaler-misuse"),
        "tf32-unsupported",
    ),
    "crash": (
        *(
            "accelerator-runtime",
            "cuda-library",
            "illegal-instruction",
            "illegal-memory-access",
            "kernel-resources",
            "segfault",
        ),
        "sigabrt",
    ),
    "environment": (
        *("bad-checkpoint", "broken-interpreter", "container-launch", "device-busy", "disk-full"),
        *("driver-mismatch", "hf-hub-auth", "experiment-tracker", "inductor-compile", "missing-file"),
        *("missing-module", "nccl-p2p-unsupported", "nccl-version", "no-kernel-image", "package-conflict"),
        *("shm", "scheduler-launch", "ssh-access", "time-limit", "too-many-open-files"),
        "unknown-architecture",
    ),
    "unknown": ("unknown",),
}
_OF: dict[str, FailureCategoryName] = {
    **{slug: name for name, slugs in _OF_CLASSES.items() for slug in slugs},
    # one row of a class that is otherwise of another nature
    "S66": "environment",  # no usable interface, closed ports
    "S116": "external",  # processes of another launch
    "S70": "external",  # SIGKILL by another process; `certain` only when the kernel says that memory was why
    "S94": "environment",  # no permission
    "S131": "script",  # NCCL called wrongly
}


def category_of(cause: Cause) -> FailureCategory:
    """Return the nature of a cause; one of a class that the table does not know is unknown."""
    if cause.code == "S70" and cause.confidence == "certain":
        return CATEGORIES["oom"]
    return CATEGORIES[_OF.get(cause.code) or _OF.get(cause.slug, "unknown")]


def classes() -> frozenset[str]:
    """Return every class and code that the table has a row for."""
    return frozenset(_OF)
