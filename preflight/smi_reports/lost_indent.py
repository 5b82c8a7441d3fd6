"""`nvidia-smi -q` whose lines lost the blanks in front of them, as mails and chats leave it: put back. Pure.

A line without a colon is a heading. What follows it is in its group, to the next heading or to a key that
nvidia-smi prints in no group.
"""

from preflight import regex as re

GPU = re.compile(r"GPU ((?:[0-9A-Fa-f]{4}){1,2}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)\s*$")
_INNER = re.compile(
    r"volatile|aggregate|pcie generation|link width|(?:multiple single|double) bit retirement|bridge chip"
    r"|gpu link info|l1 cache|(?:device|texture) memory|register file",
    re.IGNORECASE,
)
"""Headings within a group: the group continues behind them."""
_ALONE = re.compile(
    r"(?:Product|Display|Persistence|Accounting|Addressing|Serial|GPU UUID|GPU Part|Minor|VBIOS"
    r"|MultiGPU|Board|GSP|GPU Recovery|Module|FRU|Fan Speed|Performance State|Compute Mode|Processes)\b"
)
"""Keys of a GPU that are in no group."""
_IN_PROCESS = re.compile(r"(?:Type|Name|Used GPU Memory)\s*:")


def is_flat(text: str) -> bool:
    """Whether a `-q` has GPUs and no line with blanks in front of it."""
    lines = text.split("\n")
    first = next((at for at, line in enumerate(lines) if GPU.match(line)), None)
    return first is not None and not any(line[:1] in (" ", "\t") and line.strip() for line in lines[first:])


def restore_indent(text: str) -> str:
    """Return a flat `-q` with the blanks of each line's depth."""
    lines, depth = list[str](), -1  # -1 above the first GPU
    for line in text.split("\n"):
        label, colon, _ = line.partition(":")
        if GPU.match(line):
            at = depth = 0
        elif depth < 0 or not line.strip():
            at = 0
        elif not colon:
            at = depth = 2 if _INNER.fullmatch(label.strip()) and depth else 1
        else:
            depth = 0 if _ALONE.match(line) else depth
            at = depth + (2 if _IN_PROCESS.match(line) else 1)
        lines.append("    " * at + line)
    return "\n".join(lines)
