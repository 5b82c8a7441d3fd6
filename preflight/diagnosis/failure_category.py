"""Of what nature each class of failure is, and so whether the same launch can end otherwise. Two tables; pure."""

from typing import Literal, TypeAlias, get_args

from preflight.diagnosis.result import Cause
from preflight.frozen import dataclass

NatureName: TypeAlias = Literal[
    "host",
    "network",
    "gpu",
    "outside",
    "hang",
    "storage",
    "oom",
    "script",
    "precision",
    "crash",
    "setup",
    "unknown",
]


@dataclass(frozen=True, slots=True)
class Nature:
    """One row. `passes` True: what caused it may be gone, or be left out, when the run is started again."""

    name: NatureName
    passes: bool
    words: str


NATURES: dict[NatureName, Nature] = {
    row.name: row
    for row in (
        Nature("host", True, "a host was lost"),
        Nature("network", True, "the network between the ranks failed, or one waited in vain for the others"),
        Nature("gpu", True, "a GPU failed"),
        Nature("outside", True, "something outside the run ended one of its processes"),
        Nature("hang", True, "the ranks hung"),
        Nature("storage", True, "a file system failed"),
        Nature("oom", False, "memory ran out, and would run out again"),
        Nature("script", False, "the script itself failed, and would fail again"),
        Nature("precision", False, "the numbers went bad, and would again"),
        Nature("crash", False, "native code crashed, which a new start seldom repairs"),
        Nature(
            "setup",
            False,
            "a package, a file, a right, room or time is missing, and a person must provide it",
        ),
        Nature("unknown", False, "it is not known why it failed"),
    )
}
LASTING: tuple[NatureName, ...] = tuple(name for name in get_args(NatureName) if not NATURES[name].passes)
"""What can only fail again, unless somebody says otherwise."""

# By class of failure (the slug of a signature); a code stands where one row differs from its class.
_OF: dict[str, NatureName] = {
    # one row of a class that is otherwise of another nature
    "S66": "setup",  # no usable interface, closed ports
    "S70": "outside",  # SIGKILL by somebody; `certain` only when the kernel says that memory was why
    "S94": "setup",  # no permission
    # the network, the other ranks
    "nccl-network": "network",
    "nccl-system-error": "network",
    "nccl-timeout-watchdog": "network",
    "rendezvous-timeout": "network",
    # hardware
    "gpu-lost": "gpu",
    "nccl-cuda-error": "gpu",
    "storage": "storage",
    # from outside
    "port-in-use": "outside",
    "preempted": "outside",
    "sighup": "outside",
    "terminated": "outside",
    # memory
    "cuda-oom": "oom",
    "host-oom-killed": "oom",
    # the script
    "user-exception": "script",
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
    "segfault": "crash",
    "sigabrt": "crash",
    # what somebody must provide
    "bad-checkpoint": "setup",
    "broken-interpreter": "setup",
    "device-busy": "setup",
    "disk-full": "setup",
    "driver-mismatch": "setup",
    "hf-hub-auth": "setup",
    "inductor-compile": "setup",
    "missing-file": "setup",
    "missing-module": "setup",
    "nccl-p2p-unsupported": "setup",
    "nccl-version": "setup",
    "no-kernel-image": "setup",
    "shm": "setup",
    "ssh-access": "setup",
    "time-limit": "setup",
    "too-many-open-files": "setup",
    "unknown-architecture": "setup",
    # another process's words about the failed one
    "unknown": "unknown",
}


def nature_of(cause: Cause) -> Nature:
    """Return the nature of a cause; one of a class that the table does not know is unknown."""
    if cause.code == "S70" and cause.confidence == "certain":
        return NATURES["oom"]
    return NATURES[_OF.get(cause.code) or _OF.get(cause.slug, "unknown")]


def classes() -> frozenset[str]:
    """Return every class and code that the table has a row for."""
    return frozenset(_OF)
