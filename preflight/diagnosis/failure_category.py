"""The nature of each class of failure, and so whether the same launch can end otherwise. One table; pure."""

from typing import Literal, TypeAlias

from preflight.diagnosis.result import Cause
from preflight.frozen import dataclass

FailureCategoryName: TypeAlias = Literal[
    "host", "network", "gpu", "external", "hang", "storage", "oom", "script", "precision", "crash", "environment", "unknown",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FailureCategory:
    """One row. `retryable`: what caused it may be gone, or be left out, when the run is started again.

    `classes`: slugs of signatures, and codes of rows that are of another nature than their class.
    """

    name: FailureCategoryName
    retryable: bool
    description: str
    classes: str


_ROWS = (
    FailureCategory("host", True, "a host was lost", "host-hardware"),
    FailureCategory("network", True, "the network between the ranks failed, or one waited in vain for the others",
                    "nccl-network nccl-system-error nccl-timeout-watchdog rendezvous-timeout"),
    FailureCategory("gpu", True, "a GPU failed", "gpu-lost nccl-cuda-error"),
    # S116: processes of another launch; S70: SIGKILL by another, `certain` only if the kernel names memory
    FailureCategory("external", True, "something outside the run ended one of its processes", "port-in-use preempted sighup terminated S116 S70"),
    FailureCategory("hang", True, "the ranks hung", ""),
    FailureCategory("storage", True, "a file system failed", "storage"),
    FailureCategory("oom", False, "memory ran out, and would run out again", "cuda-oom host-oom-killed"),
    # S131: NCCL called wrongly
    FailureCategory("script", False, "the script itself failed, and would fail again",
                    "user-exception bad-data collective-unsupported process-group collective-mismatch cuda-reinit-in-fork ddp-unused-parameters"
                    " deprecated-tokenizer-arg device-map-auto device-mismatch device-side-assert invalid-device-ordinal nccl-duplicate-gpu S131"),
    FailureCategory("precision", False, "the numbers went bad, and would again",
                    "bf16-scaler bf16-unsupported dtype-mismatch flash-attn-unsupported fp16-unscale fp8-unsupported nan-loss no-gradient"
                    " precision-conflict scaler-misuse tf32-unsupported"),
    FailureCategory("crash", False, "native code crashed, which a new start seldom repairs",
                    "accelerator-runtime cuda-library illegal-instruction illegal-memory-access kernel-resources segfault sigabrt"),
    # S66: no usable interface, closed ports; S94: no permission
    FailureCategory("environment", False, "a package, a file, a right, room or time is missing, and a person must provide it",
                    "bad-checkpoint broken-interpreter container-launch device-busy disk-full driver-mismatch hf-hub-auth experiment-tracker"
                    " inductor-compile local-server missing-file missing-module nccl-p2p-unsupported nccl-version no-kernel-image package-conflict shm"
                    " launch-refused no-terminal scheduler-launch ssh-access time-limit too-many-open-files unknown-architecture S66 S94"),
    FailureCategory("unknown", False, "it is not known why it failed", "unknown"),
)  # fmt: skip
CATEGORIES = {row.name: row for row in _ROWS}
PERMANENT = tuple(row.name for row in _ROWS if not row.retryable)  # fails again, if the user does not object
_OF = {each: row for row in _ROWS for each in row.classes.split()}


def classify_cause(cause: Cause) -> FailureCategory:
    """Return the nature of a cause; one of a class that the table does not know is unknown."""
    if cause.code == "S70" and cause.confidence == "certain":
        return CATEGORIES["oom"]
    return _OF.get(cause.code) or _OF.get(cause.slug, CATEGORIES["unknown"])
