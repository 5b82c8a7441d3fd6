"""Files that nvidia-smi did not print: what they are instead, and what to do with them. Pure."""

import re

from preflight.errors import BadInput
from preflight.smi_reports.surroundings import ERRORS

OTHER_TABLE = r"^\|[^\S\n]*(?!NVIDIA-SMI\b)(?:[A-Za-z]{2,9}-(?:SMI|ML)|CNMON)\b|\bAIP-Util\b"
"""The head of a table as other makers' programs draw it after nvidia-smi's."""

RECORD = r'\A\s*\{\s*"schema": *"gpulaunch\.record/'
"""It holds strings, of which some would be read."""

SCRIPT = r"\A#! ?/"
"""Its comments may show what nvidia-smi prints."""

OF_ACCOUNTING = r"^(?:[a-z_]+(?: \[ms\])?, )*(?:gpu_utilization \[%\]|retired_pages\.address), [a-z_]"
"""Its rows are those of processes and pages, not of GPUs."""

_ELSEWHERE = "; save `nvidia-smi -q -x > FILE` on a host with GPUs of NVIDIA: gpulaunch reads no others"
_OTHERS = {
    r"\A\s*\Z": "is empty",
    r"\A\x1f[\x8b\ufffd]\x08": "is compressed with gzip; unpack it first: gunzip FILE",
    r"\A(?:BZh\d|\ufffd7zXZ|\(\ufffd/\ufffd)": "is compressed; unpack it first",
    r"\APK\x03\x04": "is a zip archive; unpack it first",
    r"\A(?:[\x89\ufffd]PNG\r?\n|\ufffd{3,4}[\s\S]{0,6}(?:JFIF|Exif)|GIF8|RIFF....WEBP)": (
        "is a picture; paste what nvidia-smi prints as text"
    ),
    r"\A%PDF-": "is a PDF document; paste what nvidia-smi prints as text",
    r"\A\x7fELF|\AMZ[\s\S]{40}": "is a program",
    RECORD: "is a recording of gpulaunch; gpulaunch preflight --from FILE reads it",
    SCRIPT: "is a script; start it, and save what nvidia-smi prints",
    (
        r"ROCm System Management Interface|^\| AMD-SMI |amdgpu version:|AMD (?:Instinct|Radeon)"
        r"|\bgfx\d{3,4}\b|\bAvgPwr\b|GPU Memory Allocated \(VRAM%\)|\(Sensor (?:edge|junction|mem)\)"
        r"|^[^\S\n]*(?:KFD_ID|GFX_ACTIVITY|USED_VRAM|SOCKET_POWER|HIP_ID):|^GPU +(?:XCP +)?POWER +GPU_T\b"
        r"|\bVRAM_USAGE\b|^device,(?:[^,\n]{0,80}\([^,\n]{0,40}\),?)+[^\S\n]*$"
    ): f"is the output of AMD's tools{_ELSEWHERE}",
    r"^[^\S\n|]*mthreads-gmi\b": f"is the output of mthreads-gmi (Moore Threads){_ELSEWHERE}",
    r"^\| npu-smi |^\| NPU +Name ": f"is the output of npu-smi (Huawei Ascend){_ELSEWHERE}",
    r"^\| HL-SMI |\bAIP-Util\b": f"is the output of hl-smi (Intel Gaudi){_ELSEWHERE}",
    r"\bMetaX\b|^\| MX-SMI ": f"is the output of mx-smi (MetaX){_ELSEWHERE}",
    r"^\| Device ID \| Device Information|Intel\(R\) Data Center GPU": (
        f"is the output of xpu-smi (Intel){_ELSEWHERE}"
    ),
    OTHER_TABLE: f"is the output of another maker's program{_ELSEWHERE}",
    r"^DCGM_FI_\w+\{|^# HELP DCGM_FI_": "holds metrics of the DCGM exporter",
    (
        r"^\| (?:GPU ID \| Device Information|Diagnostic +\| Result|Health Monitor Report)"
        r"|^Successfully ran diagnostic"
    ): "is the output of dcgmi",
    r"NVIDIA-SMI [\d.]+ +Driver Version:[^\n]{200}": (
        "is a table of nvidia-smi on one line, whose rows are not whole; paste it again as preformatted text"
    ),
    r"^[^\S\n|]*NVIDIA-SMI [\d.]+ +Driver Version:": (
        "is a table of nvidia-smi without its bars, whose rows are not whole; "
        "paste it again as preformatted text"
    ),
    r"^[^\S\n]*Device \d+ \[[^]\n]+\] PCIe GEN": "is the output of nvtop",
    r'^Field "[^\n]*" is not a valid field|^Invalid combination of input': "says that an option is wrong",
    r"^NVSMI provides monitoring information|^nvidia-smi \[OPTION1": "is the help of nvidia-smi",
    r"\bRAM \d+/\d+MB\b.*\bGR3D_FREQ\b": "is the output of tegrastats (a Jetson)",
    r"^\|[^\S\n]*(?:MIG devices|(?:GPU|Compute) instance(?:s| profiles)):": "lists MIG instances alone",
    r"^\|[^\n]{0,200}\d+Mi?B / +\d+Mi?B|^\|[^\n]{0,200} \d+MiB \|[^\S\n]*$": (
        "holds rows of a table without those that number and name the GPUs"
    ),
    (
        r"^[^\S\n]*(?:Product Name|GPU UUID|Compute Mode|FB Memory Usage|ECC Errors|Remapped Rows"
        r"|Retired Pages|Clocks (?:Throttle|Event) Reasons)[^\S\n]*(?::[^\S\n]|$)"
    ): "is a part of nvidia-smi -q without the line that names its GPU (GPU 00000000:65:00.0)",
    OF_ACCOUNTING: (
        "lists retired pages or what accounting recorded of processes, and not the GPUs of the host"
    ),
    r"^(?:timestamp|[a-z_]+(?:\.[a-z_]+)+)(?: \[[\w/%]+\])?(?:, [a-z_.]+(?: \[[\w/%]+\])?)*[^\S\n]*$": (
        "is a CSV of --query-gpu that names no GPU; ask for index, name and uuid too"
    ),
    r"^COMMAND +PID +|^(?:USER|UID) +PID +|^ *PID +(?:TTY|USER|PPID) |^/dev/nvidia\d*:": (
        "lists processes, and not the GPUs as nvidia-smi does; put what that prints in front of the list"
    ),
    rf"^[^\S\n]*(?:{ERRORS})": (
        "is a text about an error of nvidia-smi; save what nvidia-smi itself prints on the host"
    ),
    r"\A(?:[^\S\n]*(?:\d[\d./: ]*|\[?N/A\]?)(?: (?:MiB|%|W|MHz))?(?:,[^\S\n]*|\n)){2,}\Z": (
        "is a CSV without the names of its columns; "
        "record it again without noheader, with index, name and uuid too"
    ),
}
"""What a text looks like -> what the file is or does, and behind a semicolon what to do with it."""


def explain_unrecognised(text: str, expected: str) -> BadInput:
    """Return the error for a text that no reader knows; `expected` lists what is read."""
    for pattern, said in _OTHERS.items():
        if re.search(pattern, text, re.MULTILINE):
            what, _, fix = said.partition("; ")
            return BadInput(f"the file {what}", fix or f"record one of {expected}")
    return BadInput("unrecognised nvidia-smi output", f"record one of {expected}")
