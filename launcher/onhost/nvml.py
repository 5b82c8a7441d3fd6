"""NVML by a few functions of its stable ABI, queried in a thread that is abandoned when a driver hangs.

The agent carries parts of pynvml, 50 kB of source to compile at each start; the gauge is in every run
directory, starts beside the ranks, and needs nine calls. The monitor needs three more. Standard library,
Python >= 3.9.
"""

import threading
import time
from typing import Any, Callable

MAX_PROCESSES = 256  # of one GPU
PROCESS_WORDS = 6  # nvmlProcessInfo_v2_t as 32-bit words: pid, padding, memory (2), GPU and compute instance
ANSWER_S = 1.0  # how long a sample waits for NVML
TEMPERATURE_GPU = 0  # nvmlTemperatureSensors_t
RETRY_S = 60.0  # a driver that refuses may be loaded or repaired later


class NvmlError(Exception):
    """NVML refused a call; the text has the call and the reason."""


class Nvml:
    """NVML calls of the gauge and the monitor. Raises NvmlError, or OSError where NVML is not available."""

    def __init__(self) -> None:
        import ctypes

        self.c = ctypes
        self.library = self._load()
        self.library.nvmlErrorString.restype = ctypes.c_char_p
        self.call("nvmlInit_v2")

    def _load(self) -> Any:
        from preflight.probes.driver_library import load_library

        library, _, refused = load_library("libnvidia-ml.so.1")
        if library is None:
            raise NvmlError("NVML cannot be loaded: %s" % refused)
        return library

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

    def fields(self, function: str, handle: Any, types: str) -> list[int] | None:
        """Return what a function writes into a struct of 32 (I) and 64 bit (Q) fields, None if it refuses."""
        kinds = {"I": self.c.c_uint, "Q": self.c.c_ulonglong}
        fields = [("f%d" % at, kinds[letter]) for at, letter in enumerate(types)]
        struct = type("Answer", (self.c.Structure,), {"_fields_": fields})()
        if types[0] == "I" and "Q" in types:  # a versioned struct: its size, and 2
            struct.f0 = self.c.sizeof(struct) | 2 << 24
        try:
            self.call(function, handle, self.c.byref(struct))
        except NvmlError:
            return None
        return [int(getattr(struct, name)) for name, _ in fields]

    def look(self, handle: Any) -> dict[str, float | None]:
        """Return one GPU's numbers; None for those that it does not report."""
        used = self.fields("nvmlDeviceGetMemoryInfo_v2", handle, "IQQQQ")
        used = used or self.fields("nvmlDeviceGetMemoryInfo", handle, "QQQ")  # both: ..., free, used
        busy = self.fields("nvmlDeviceGetUtilizationRates", handle, "II")
        return {
            "busy": busy[0] if busy else None,
            "memory_busy": busy[1] if busy else None,
            "memory_mib": used[-1] >> 20 if used else None,
            "memory_free_mib": used[-2] >> 20 if used else None,
            "power_w": self.watts("nvmlDeviceGetPowerUsage", handle),
            "power_limit_w": self.watts("nvmlDeviceGetEnforcedPowerLimit", handle),
        }

    def number(self, function: str, handle: Any, *arguments: int, wide: bool = False) -> int | None:
        """Return the one number that a function writes, 32 or (`wide`) 64 bit; None where it refuses."""
        answer = self.c.c_ulonglong() if wide else self.c.c_uint()
        try:
            self.call(function, handle, *arguments, self.c.byref(answer))
        except NvmlError:
            return None
        return int(answer.value)

    def watts(self, function: str, handle: Any) -> float | None:
        """Return the power that a function writes in mW; None where it refuses."""
        power = self.number(function, handle)
        return None if power is None else power / 1000.0

    def celsius(self, handle: Any) -> int | None:
        """Return a GPU's temperature, None where it does not report it."""
        return self.number("nvmlDeviceGetTemperature", handle, TEMPERATURE_GPU)

    def throttle_bits(self, handle: Any) -> int | None:
        """Return why a GPU's clocks are held back just now, None where it does not say."""
        bits = self.number("nvmlDeviceGetCurrentClocksEventReasons", handle, wide=True)
        if bits is None:  # the name before driver 535
            bits = self.number("nvmlDeviceGetCurrentClocksThrottleReasons", handle, wide=True)
        return bits

    def compute_pids(self, handle: Any) -> list[int] | None:
        """Return the pids of the compute processes of a GPU, None where the driver does not list them."""
        for version in ("_v3", "_v2"):
            rows = (self.c.c_uint * (MAX_PROCESSES * PROCESS_WORDS))()
            count = self.c.c_uint(MAX_PROCESSES)
            try:
                self.call("nvmlDeviceGetComputeRunningProcesses" + version, handle, self.c.byref(count), rows)
            except NvmlError:
                continue
            return [int(rows[at * PROCESS_WORDS]) for at in range(min(count.value, MAX_PROCESSES))]
        return None


class GpuSampler(threading.Thread):
    """Thread that queries NVML on request; a call that never returns blocks nothing else."""

    def __init__(self, uuids: list[str], look: Callable[[Nvml, Any], dict[str, Any]] = Nvml.look) -> None:
        super().__init__(daemon=True)
        self.uuids = uuids
        self.look = look
        self.wanted = threading.Event()
        self.answered = threading.Event()
        self.asked_at = 0.0
        self.said: tuple[dict[str, Any], str] = ({}, "NVML has not answered yet")

    def sample(self) -> tuple[dict[str, Any], str]:
        """Return ({UUID: numbers}, reason for missing ones), after a moment at most."""
        if not self.uuids:
            return {}, ""
        if not self.wanted.is_set():
            self.asked_at = time.monotonic()
            self.answered.clear()
            self.wanted.set()
        if self.answered.wait(ANSWER_S):
            return self.said
        return {}, "NVML has not answered for %.0f s" % self.silent_s()

    def silent_s(self) -> float:
        """Return the age of the unanswered query in seconds, 0 when all are answered."""
        waiting = self.uuids and not self.answered.is_set() and self.asked_at
        return time.monotonic() - self.asked_at if waiting else 0.0

    def run(self) -> None:
        """Answer queries forever."""
        nvml: Nvml | None = None
        again_at = 0.0
        while True:
            self.wanted.wait()
            if nvml is None and time.monotonic() >= again_at:
                try:
                    nvml = Nvml()
                except Exception as error:
                    self.said = ({}, str(error))
                    again_at = time.monotonic() + RETRY_S
            if nvml is not None:
                self.said = self._look(nvml)
            self.wanted.clear()
            self.answered.set()

    def _look(self, nvml: Nvml) -> tuple[dict[str, Any], str]:
        found: dict[str, Any] = {}
        missing = ""
        for uuid in self.uuids:  # by UUID each time: a GPU that was reset has another handle
            try:
                found[uuid] = self.look(nvml, nvml.handle(uuid))
            except Exception as error:
                missing = missing or "%s: %s" % (uuid, error)
        return found, missing
