"""NVML's answers as facts: its errors are reasons, its bytes are text."""

from collections.abc import Callable
from typing import Any

from ..fact import Json, explain_exception, missing

_NVML_CODES = {
    1: "not-loaded",
    3: "not-supported",
    4: "no-permission",
    6: "not-found",
    9: "not-loaded",
    10: "timeout",
    12: "no-library",
    13: "not-supported",
    15: "gpu-lost",
    16: "reset-required",
    18: "library-mismatch",
    28: "gpu-lost",
}


def explain_nvml_error(error: Any) -> Json:
    """Return the absent fact that an NVMLError means."""
    return missing("NVML: %s" % error, _NVML_CODES.get(int(error.value), "error"))


def read_nvml_fact(nv: Any, read: Callable[[], Any]) -> Any:
    """Return what `read` returns, or the reason NVML gave."""
    try:
        return read()
    except nv.NVMLError as error:
        return explain_nvml_error(error)
    except Exception as error:
        return explain_exception(error)


def decode_text(value: Any) -> str:
    """Return text; pynvml's versions differ in bytes and str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
