"""Files that nvidia-smi did not print: what they are instead, and what to do with them. Pure."""

import re

from preflight.errors import BadInput

_OTHERS = (
    (r"\A\s*\Z", "the file is empty", ""),
    (r"\A\x1f[\x8b\ufffd]\x08", "the file is compressed with gzip", "unpack it first: gunzip FILE"),
    (r"\APK\x03\x04", "the file is a zip archive", "unpack it first"),
    (
        r'\A\s*\{\s*"schema": *"gpulaunch\.record/',
        "the file is a recording of gpulaunch",
        "gpulaunch preflight --from FILE reads it",
    ),
    (r"ROCm System Management Interface|^\| AMD-SMI ", "the file is the output of AMD's tools", ""),
    (r"^\[\d+\] [^|\n]+\| *\d+.C, ", "the file is the output of gpustat", ""),
    (r"^[^\S\n]*Device \d+ \[[^]\n]+\] PCIe GEN", "the file is the output of nvtop", ""),
    (
        r"^\|[^\S\n]*(?:GPU instances|MIG devices|Compute instances):",
        "the file lists MIG instances alone",
        "",
    ),
    (
        r"^(?:timestamp|[a-z_]+(?:\.[a-z_]+)+)(?: \[[\w/%]+\])?(?:, [a-z_.]+(?: \[[\w/%]+\])?)*[^\S\n]*$",
        "the file is a CSV of --query-gpu that names no GPU",
        "ask for index, name and uuid too",
    ),
)
"""What a text looks like, what it is, and what to do; "" for the list of what is read."""


def unrecognised(text: str, expected: str) -> BadInput:
    """Return the error for a text that no reader knows; `expected` lists what is read."""
    for pattern, message, fix in _OTHERS:
        if re.search(pattern, text, re.MULTILINE):
            return BadInput(message, fix or f"record one of {expected}")
    return BadInput("unrecognised nvidia-smi output", f"record one of {expected}")
