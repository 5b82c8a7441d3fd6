"""NVIDIA's Xid error codes: what they mean, whose failure they are, and what to do. A table.

Source: NVIDIA's Xid catalogue, https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, column
"Immediate Action": RESTART_APP, IGNORE, RESET_GPU, RESTART_BM (power-cycle), RESTART_VM; older drivers' codes
are of its archive. Others are reported by their number.
"""

from preflight import regex as re
from preflight.job import Expect

_RESET = "end its processes, then: sudo nvidia-smi --gpu-reset -i {gpu}"
_REPLACE = f"{_RESET}; if it returns, have the GPU replaced"
# fmt: off
_TABLE: tuple[tuple[str, dict[int, str]], ...] = (
    ("look at the program that ran then: compute-sanitizer python SCRIPT", {
        **dict.fromkeys((11, 25), "invalid commands: usually a program's or its CUDA's fault"),
        13: "graphics engine exception: usually a program's out-of-bounds access",
        31: "memory page fault: usually a program's illegal address",
        43: "GPU stopped processing for a program: the program's own fault",
        69: "graphics engine class error: usually a program's fault",
        137: "NVLink access that is not allowed: usually a program's illegal address",
    }),
    ("nothing to do for it: look for what came before", {45: "preemptive cleanup: a program was ended"}),
    ("start the program that ran then again; if it returns, ask the administrator", {
        8: "GPU stopped processing for a program",
        **dict.fromkeys((32, 80), "commands to the GPU were damaged: often its PCIe link"),
        **dict.fromkeys((39, 40, 41, *range(70, 73), *range(75, 78), 85), "copy engine error"),
        **dict.fromkeys((68, 83, 84, 88, 89), "video decoder exception"),
    }),
    ("start the program that hit it again; when the GPU is free: sudo nvidia-smi --gpu-reset -i {gpu}",
     {94: "contained memory error: the program that hit it was ended"}),
    ("nothing to do at once; if it returns, ask the administrator", {
        **dict.fromkeys((37, 38), "driver firmware error"),
        44: "graphics engine fault during a context switch",
        56: "display engine error",
        92: "high rate of single-bit ECC errors, which were corrected",
        121: "corrected errors on the link to the CPU (C2C)",
    }),
    ("nothing to do at once: the next reset of the GPU, or reboot, puts spare memory in its place",
     {63: "row remap or page retirement recorded"}),
    (_REPLACE + ", as soon as nvidia-smi -q -d ECC -i {gpu} says SRAM Threshold Exceeded: Yes",
     {48: "double-bit ECC error: memory the GPU could not correct"}),
    (_REPLACE, {
        64: "row remap or page retirement failed",
        95: "uncontained memory error: every program on the GPU is affected",
        140: "unrecovered ECC error",
    }),
    ("nvidia-smi nvlink -s -i {gpu} shows whether a link is down; if so, " + _REPLACE,
     {74: "NVLink error", 136: "NVLink training failed", **dict.fromkeys(range(144, 151), "NVLink error")}),
    ("ask the administrator to power-cycle the host; if it returns: reseat the card and its power",
     {79: "GPU has fallen off the bus", 110: "security fault", 54: "auxiliary power is not connected"}),
    (_RESET + "; if that fails, power-cycle the host", {
        46: "GPU stopped processing",
        61: "internal micro-controller breakpoint",
        62: "internal micro-controller halt",
        109: "context switch time-out",
        119: "the GPU's system processor (GSP) does not answer",
        120: "the GPU's system processor (GSP) failed",
        143: "GPU initialisation failed",
        158: "a time-out that ends all work on the GPU",
    }),
    ("restart the virtual machine", {151: "key rotation failed (confidential computing)"}),
    ("nvidia-smi -q -i {gpu} | grep -i recovery says what it asks for",
     {154: "the driver asks for a recovery action"}),
)
# fmt: on
XIDS: dict[int, str] = {code: meaning for _, codes in _TABLE for code, meaning in codes.items()}

PROGRAM_XIDS = Expect().program_xids  # usually a program's own fault, or its end
ADDRESS_FAULT_XIDS = (13, 31)  # of those, what a program does by an illegal address
GPU_FAILED_XIDS = (46, 48, 61, 62, 64, 74, 79, 94, 95, 109, 110, 119, 120, 136, 140, 143, 145, 149, 154, 158)
"""By which a GPU, its memory or its link is out of work.

Others are also a program's or the driver's, or only recorded.
"""
RECOVERY_XID = 154
_ASKED = re.compile(r"changed from .{0,60} to 0x[0-9a-fA-F]+ \(([A-Za-z0-9 ]+)\)")


def fix_xid(code: int, gpu: str) -> str:
    """Return what to do about an Xid of a GPU, which is its number or its bus id."""
    fix = next((fix for fix, codes in _TABLE if code in codes), "")
    return fix.format(gpu=gpu) or f"https://docs.nvidia.com/deploy/xid-errors says what to do for {code}"


def parse_recovery(text: str) -> str:
    """Return the action that the message of Xid 154 ends with, as NVML calls it: "gpu_reset", "none"."""
    asked = _ASKED.search(text)
    return asked[1].lower().removesuffix(" required").replace(" ", "_") if asked else ""


def condemns_gpu(code: int, text: str, fatal: tuple[int, ...]) -> bool:
    """Whether an Xid says that the GPU needs a reset or a technician.

    `fatal` are the codes that always do; NVLink errors of Blackwell say "Fatal" or "Nonfatal", and 154 names
    the action.
    """
    if code == RECOVERY_XID:
        return parse_recovery(text) not in ("", "none")
    return code in fatal or (code in range(144, 151) and re.search(r"\bFatal\b", text) is not None)


def build_xid_pattern(codes: tuple[int, ...]) -> str:
    """Return the pattern of one of these numbers."""
    return rf"(?:{'|'.join(map(str, codes))})\b"
