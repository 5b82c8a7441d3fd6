"""Clocks, power, temperature and throttle reasons of a GPU, sampled beside the matrix products by NVML."""

import threading
import time
from typing import Any

from ..nvml import Nvml, NvmlError

EVERY_S = 0.2
MOST_SAMPLES = 100
CLOCK_SM, CLOCK_MEMORY = 1, 2  # nvmlClockType_t
THROTTLE = {  # nvmlClocksThrottleReason*, nvml.h
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
}


class Sensors:
    """Sampler of one GPU. Where NVML cannot be asked, `missing` says why, and nothing is sampled."""

    def __init__(self, uuid: str) -> None:
        self.missing = ""
        self._samples: list[list[float | None]] = []
        self._reasons: set[str] = set()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            self._nvml = Nvml()
            self._handle = self._nvml.handle(uuid)
        except (NvmlError, OSError, AttributeError) as error:
            self.missing = str(error)

    def limits(self) -> dict[str, Any]:
        """Return maximum clocks in MHz, the width of the memory bus in bits, the power limit in W."""
        if self.missing:
            return {"nvml_missing": self.missing}
        power = self._value("nvmlDeviceGetEnforcedPowerLimit")
        return {
            "clock_max_mhz": self._value("nvmlDeviceGetMaxClockInfo", CLOCK_SM),
            "memory_clock_max_mhz": self._value("nvmlDeviceGetMaxClockInfo", CLOCK_MEMORY),
            "bus_bits": self._value("nvmlDeviceGetMemoryBusWidth"),
            "power_limit_w": None if power is None else power / 1000.0,
        }

    def begin(self) -> None:
        """Start to sample."""
        if not self.missing:
            self._thread = threading.Thread(target=self._sample, name="sensors", daemon=True)
            self._thread.start()

    def end(self) -> dict[str, Any]:
        """Stop; return the samples [seconds, SM MHz, W, degrees C] and the throttle reasons seen."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)
        every = max(1, -(-len(self._samples) // MOST_SAMPLES))
        return {"sensors": self._samples[::every], "throttle": sorted(self._reasons)}

    def _sample(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(EVERY_S):
            power = self._value("nvmlDeviceGetPowerUsage")
            self._samples.append(
                [
                    round(time.monotonic() - began, 2),
                    self._value("nvmlDeviceGetClockInfo", CLOCK_SM),
                    None if power is None else power / 1000.0,
                    self._value("nvmlDeviceGetTemperature", 0),
                ]
            )
            reasons = int(self._value("nvmlDeviceGetCurrentClocksThrottleReasons", wide=True) or 0)
            self._reasons.update(word for bit, word in THROTTLE.items() if reasons & bit)

    def _value(self, function: str, *arguments: int, wide: bool = False) -> float | None:
        """Return the number that a function gives, None where the GPU or the driver has it not."""
        kinds = self._nvml.c
        found = kinds.c_ulonglong() if wide else kinds.c_uint()
        try:
            self._nvml.call(function, self._handle, *arguments, kinds.byref(found))
        except NvmlError:
            return None
        return int(found.value)
