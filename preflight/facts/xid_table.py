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


def any_xid(codes: tuple[int, ...]) -> str:
    """Return the pattern of one of these numbers."""
    return rf"(?:{'|'.join(map(str, codes))})\b"


def explain_xid(code: int) -> str:
    """Return what an Xid means, for a message."""
    return XIDS.get(code, "see NVIDIA's Xid catalogue")
