"""The words in which nvidia-smi prints a value, or that there is none."""

import re
from collections.abc import Callable
from typing import Any

from ..fact import Json, missing, truncate

NO_PROGRAM = (
    r"(?:nvidia-smi(?:\.exe)?['\"]?(?: ?:)? (?:[^\n]{0,12}?(?:not found|nicht gefunden|introuvable"
    r"|no encontrad|non trovato|encontrado|\u672a\u627e\u5230|\u627e\u4e0d\u5230|\u898b\u3064\u304b\u308a)"
    r"|The term .{0,40} is not recognized|is not recognized|No such file or directory"
    r"|executable file not found|Permission denied)|command not found: nvidia-smi)"
)
"""The words of a shell that finds no nvidia-smi, or may not start it."""

_SMI_ERRORS = (
    (r"version mismatch", "library-mismatch"),
    (r"couldn't communicate with the NVIDIA driver|Driver Not Loaded", "not-loaded"),
    (r"No devices were found", "no-devices"),
    (r"reset required|requires? reset", "reset-required"),
    (r"is lost|fallen off the bus|Unable to determine the device handle", "gpu-lost"),
    (r"Insufficient Permissions|nvidia-smi: Permission denied", "no-permission"),
    (
        r"couldn't find libnvidia-ml|NVIDIA driver is not installed|command not found|" + NO_PROGRAM,
        "no-library",
    ),
    (r"Failed to initialize NVML", "error"),
)


def parse_smi_error(text: str) -> Json | None:
    """Return the absent fact that nvidia-smi's own words mean, None where these are not such words."""
    for pattern, code in _SMI_ERRORS:
        if re.search(pattern, text, re.IGNORECASE):
            return missing("nvidia-smi: " + truncate(" ".join(text.split())), code)
    return None


NOT_HELD = missing("the file does not hold it", "not-asked")
CUT = "\0cut"
UNEQUAL = "\0unequal"
SHARED = "\0shared"
UNLISTED_LATER = "\0unlisted"
LOST_VALUES = {
    CUT: missing("the file is cut at this value", "not-asked"),
    UNEQUAL: missing("the sizes of its memory in the file do not add up to the total", "not-asked"),
    SHARED: missing("the file has the same UUID for another GPU", "not-asked"),
    UNLISTED_LATER: missing(
        "an earlier recording in the file lists this GPU, and the last does not", "not-asked"
    ),
}
"""What a reader of files puts in place of a value that is not whole, and why; no text has it."""
_NOT_A_VALUE = tuple(
    (re.compile(r"\[?(?:%s)\.?\]?" % words, re.IGNORECASE), code)
    for words, code in (
        ("N/?A|Not Supported|Not Available|Requested functionality has been deprecated", "not-supported"),
        ("GPU is lost|GPU_?LOST", "gpu-lost"),
        ("GPU requires reset|Reset Required|GPU_?RESET_?REQUIRED", "reset-required"),
        ("Insufficient Permissions", "no-permission"),
        ("Unknown Error|ERR!|Error|Unknown|Not Found|", "error"),
    )
)


def convert_value(text: Any, convert: Callable[[str], Any]) -> Any:
    """Return `convert(text)`, or why there is no value; an element twice is not a text."""
    if text is None:
        return NOT_HELD
    if not isinstance(text, str):
        return reject_wording(str(text))
    if text in LOST_VALUES:
        return LOST_VALUES[text]
    if "\ufffd" in text or not text.isprintable():
        return reject_wording(text)
    for pattern, code in _NOT_A_VALUE:
        if pattern.fullmatch(text):
            return missing("nvidia-smi printed %r" % text, code)
    try:
        return convert(text)
    except (ValueError, KeyError):
        return reject_wording(text)


def reject_wording(text: str) -> Json:
    """Return the absent fact that an unknown wording means."""
    return missing("nvidia-smi printed %r" % truncate(text))


def find_text(tree: Any, *paths: str) -> str | None:
    """Return the text at the first of `paths` ("a/b/c") that has one, best one with a value, else None."""
    texts = []
    for path in paths:
        here = tree
        for step in path.split("/"):
            here = here.get(step) if isinstance(here, dict) else None
        if isinstance(here, str):
            texts.append(here)
    return next((text for text in texts if text not in ("N/A", "[N/A]")), texts[0] if texts else None)


def find_value(tree: Any, convert: Callable[[str], Any], *paths: str) -> Any:
    """Return the converted text at the first of `paths` that has one, or why there is no value."""
    return convert_value(find_text(tree, *paths), convert)


def require_all(values: Json) -> Any:
    """Return `values`, or the first of them that is missing."""
    return next((value for value in values.values() if isinstance(value, dict)), values)


def parse_number(text: str) -> float:
    """Return the leading number of "81559 MiB", "38 C", "16x"; raises ValueError, for "3?1" and "3 1" too."""
    match = re.match(r"\s*(-?\d{1,15}(?:\.\d{1,15})?)(?![\d.?*#_~^]|\s+\d)", text)
    if match is None:
        raise ValueError(text)
    return float(match.group(1))


def parse_version(text: str) -> str:
    """Return the version number that `text` starts with; later words are nvidia-smi's remarks on the key."""
    match = re.match(r"\d+(\.\d+)+(?!\S)", text)
    if match is None:
        raise ValueError(text)
    return match.group(0)


def parse_whole(text: str) -> int:
    """Return the leading whole number; raises ValueError."""
    return int(parse_number(text))


def parse_percent(text: str) -> int:
    """Return a share of 100; raises ValueError for more."""
    share = parse_whole(text)
    if not 0 <= share <= 100:
        raise ValueError(text)
    return share


def parse_yes(text: str) -> bool:
    """Return the truth of nvidia-smi's words; raises KeyError for others."""
    words = {"enabled": True, "yes": True, "on": True, "disabled": False, "no": False, "off": False}
    return words[text.strip().lower()]
