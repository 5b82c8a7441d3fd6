"""NVML by a few functions of its stable ABI.

The agent carries pynvml, which is 200 KB of source to compile at each start; the gauge is in every run
directory, starts beside the ranks, and needs nine calls.
"""

from __future__ import annotations

from typing import Any

LIBRARY = "libnvidia-ml.so.1"
FOLDERS = (
    "/usr/lib/wsl/lib/",
    "/usr/local/nvidia/lib64/",
    "/usr/lib64-nvidia/",
    "/run/opengl-driver/lib/",
)


class NvmlError(Exception):
    """NVML refused a call; the text has the call and the reason."""


class Nvml:
    """NVML calls of the gauge. Raises NvmlError, or OSError where NVML is not available."""

    def __init__(self) -> None:
        import ctypes

        self.c = ctypes
        self.library = self._load()
        self.library.nvmlErrorString.restype = ctypes.c_char_p
        self.call("nvmlInit_v2")

    def _load(self) -> Any:
        refused: OSError | None = None
        for folder in ("", *FOLDERS):
            try:
                return self.c.CDLL(folder + LIBRARY)
            except OSError as error:
                refused = refused or error
        raise NvmlError("NVML cannot be loaded: %s" % refused)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises NvmlError when it does not return 0."""
        function = getattr(self.library, name, None)
        if function is None:
            raise NvmlError("%s is not in this driver's library" % name)
        code = function(*arguments)
        if code:
            words = self.library.nvmlErrorString(code) or b"?"
            raise NvmlError("%s: %s" % (name, words.decode("utf-8", "replace")))

    def handle(self, uuid: str) -> Any:
        """Return the handle of a GPU or MIG device."""
        found = self.c.c_void_p()
        self.call("nvmlDeviceGetHandleByUUID", uuid.encode(), self.c.byref(found))
        return found

    def numbers(self, function: str, handle: Any, types: str) -> list[int]:
        """Return the fields that a function writes into a struct of unsigned 32 (I) and 64 bit (Q) fields."""
        kinds = {"I": self.c.c_uint, "Q": self.c.c_ulonglong}
        fields = [("f%d" % at, kinds[letter]) for at, letter in enumerate(types)]
        struct = type("Answer", (self.c.Structure,), {"_fields_": fields})()
        if types[0] == "I" and "Q" in types:  # a versioned struct: its size, and 2
            struct.f0 = self.c.sizeof(struct) | 2 << 24
        self.call(function, handle, self.c.byref(struct))
        return [int(getattr(struct, name)) for name, _ in fields]

    def look(self, handle: Any) -> dict[str, float | None]:
        """Return one GPU's numbers; None for those that it does not report."""
        used = self._or_none("nvmlDeviceGetMemoryInfo_v2", handle, "IQQQQ")
        if used is None:
            used = self._or_none("nvmlDeviceGetMemoryInfo", handle, "QQQ")
        busy = self._or_none("nvmlDeviceGetUtilizationRates", handle, "II")
        power = self._or_none("nvmlDeviceGetPowerUsage", handle, "I")
        limit = self._or_none("nvmlDeviceGetEnforcedPowerLimit", handle, "I")
        return {
            "busy": busy[0] if busy else None,
            "memory_busy": busy[1] if busy else None,
            "memory_mib": used[-1] >> 20 if used else None,
            "power_w": power[0] / 1000.0 if power else None,
            "power_limit_w": limit[0] / 1000.0 if limit else None,
        }

    def _or_none(self, function: str, handle: Any, types: str) -> list[int] | None:
        try:
            return self.numbers(function, handle, types)
        except NvmlError:
            return None
