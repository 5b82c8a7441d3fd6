"""What is about GPUs in a text of many megabytes, such as the log of a job. Pure."""

_LONGEST = 2 << 20
"""Texts up to this many characters are read as they are; a `-q -x` of 16 GPUs has a quarter of it."""
MARKS = (
    "NVIDIA-SMI",
    "NVSMI LOG",
    "nvidia-smi",
    "nvidia_smi_log",
    "NVRM",
    "GPU-",
    "MiB",
    "NVIDIA",
    "Failed to initialize NVML",
    "No devices were found",
    "Unable to determine the device handle",
)
_BEFORE = 4 << 10
_AFTER = 64 << 10
_MOST_PLACES = 10_000


def excerpt(text: str) -> str:
    """Return a text, of a very long one what is around the words that nvidia-smi prints, in whole lines."""
    if len(text) <= _LONGEST:
        return text
    kept, end = list[str](), 0
    for place in sorted(place for mark in MARKS for place in _places(text, mark)):
        if place + _AFTER <= end:
            continue
        start = max(end, text.rfind("\n", 0, max(0, place - _BEFORE)) + 1)
        stop = text.find("\n", place + _AFTER)
        end = len(text) if stop < 0 else stop + 1
        kept.append(text[start:end])
    return "".join(kept) if kept else text[:_LONGEST]


def _places(text: str, mark: str) -> list[int]:
    """Return where a mark is, of many that are close only some."""
    places, at = list[int](), text.find(mark)
    while at >= 0 and len(places) < _MOST_PLACES:
        places.append(at)
        at = text.find(mark, at + _AFTER // 2)
    return places
