"""NVIDIA's Xid error codes that decide something: what they mean, and whose failure they are. A table.

Source: NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors). Others are reported by their number.
"""

from preflight.job import Expect

XIDS: dict[int, str] = {
    13: "graphics engine exception: usually a program's out-of-bounds access",
    31: "memory page fault: usually a program's illegal address",
    43: "GPU stopped processing for a program: the program's own fault",
    45: "preemptive cleanup: a program was ended",
    48: "double-bit ECC error: memory the GPU could not correct",
    56: "display engine error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    63: "row remap or page retirement recorded",
    64: "row remap or page retirement failed",
    68: "video processor exception",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained ECC error: the program that hit it was ended",
    95: "uncontained ECC error: every program on the GPU is affected",
    109: "context switch time-out",
    119: "the GPU's system processor (GSP) does not answer",
    120: "the GPU's system processor (GSP) failed",
    140: "unrecovered ECC error",
    143: "GPU initialisation failed",
    154: "the driver asks for a recovery action",
}

PROGRAM_XIDS = Expect().program_xids
"""Usually a program's own fault, or its end."""
ADDRESS_FAULT_XIDS = (13, 31)
"""Of those, what a program does by an illegal address."""
GPU_FAILED_XIDS = (46, 48, 61, 62, 64, 74, 79, 94, 95, 109, 110, 119, 120, 121, 136, 140, 143, 145, 149, 154)
"""By which a GPU, its memory or its link is out of work.

Others are also a program's or the driver's, or only recorded.
"""

_RESET = "end its processes, then: sudo nvidia-smi --gpu-reset -i {gpu}"
_MEMORY = f"{_RESET}; if it returns, have the GPU replaced"
_FIXES: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("look at the program that ran then: compute-sanitizer python SCRIPT", (*ADDRESS_FAULT_XIDS, 43)),
    ("nothing to do for it: look for what came before", (45,)),
    (_MEMORY, (48, 63, 64, 92, 94, 95, 140)),
    ("nvidia-smi nvlink -e -i {gpu}; " + _MEMORY, (74,)),
    ("ask the administrator to power-cycle the host; if it returns: reseat the card and its power", (79,)),
    (_RESET + "; if that fails, reboot the host", (46, 61, 62, 69, 109, 110, 119, 120, 121, 143)),
    ("nvidia-smi -q -i {gpu} | grep -i recovery says what it asks for", (154,)),
)
"""What NVIDIA's catalogue advises to do at once."""


def fix_xid(code: int, gpu: str) -> str:
    """Return what to do about an Xid of a GPU, which is its number or its bus id."""
    fix = next((fix for fix, codes in _FIXES if code in codes), "")
    return fix.format(gpu=gpu) or f"https://docs.nvidia.com/deploy/xid-errors says what to do for {code}"


def any_xid(codes: tuple[int, ...]) -> str:
    """Return the pattern of one of these numbers."""
    return rf"(?:{'|'.join(map(str, codes))})\b"


def explain_xid(code: int) -> str:
    """Return what an Xid means, for a message."""
    return XIDS.get(code, "see NVIDIA's Xid catalogue")
