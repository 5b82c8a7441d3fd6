"""What is about GPUs in a text of many megabytes, such as the log of a job. Pure."""

from preflight import regex as re

_LONGEST = 2 << 20  # characters up to which texts are read whole; a `-q -x` of 16 GPUs has a quarter
ABOUT_GPUS = re.compile(
    r"NVIDIA|NVSMI LOG|nvidia[-_](?:smi|peermem)|NVRM|SXid|Kill(?:ed)? process \d|blocked for more than"
    r"|GPU-|MiB|PCIe bandwidth|Failed to initialize NVML|No devices were found"
    r"|Unable to determine the device handle"
)
_BEFORE = 4 << 10
_AFTER = 64 << 10


def cut_excerpt(text: str) -> str:
    """Return a text, of a very long one what is around the words that nvidia-smi prints, in whole lines."""
    if len(text) <= _LONGEST:
        return text
    kept, end = list[str](), 0
    # half of what is kept behind the first word is kept behind each
    while end < len(text) and (found := ABOUT_GPUS.search(text, max(0, end - _AFTER // 2))):
        start = max(end, text.rfind("\n", 0, max(0, found.start() - _BEFORE)) + 1)
        stop = text.find("\n", found.start() + _AFTER)
        end = len(text) if stop < 0 else stop + 1
        kept.append(text[start:end])
    return "".join(kept) if kept else text[:_LONGEST]
