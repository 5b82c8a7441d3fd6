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
        nvml, gpu = self._nvml, self._handle
        return {
            "clock_max_mhz": nvml.number("nvmlDeviceGetMaxClockInfo", gpu, CLOCK_SM),
            "memory_clock_max_mhz": nvml.number("nvmlDeviceGetMaxClockInfo", gpu, CLOCK_MEMORY),
            "bus_bits": nvml.number("nvmlDeviceGetMemoryBusWidth", gpu),
            "power_limit_w": nvml.watts("nvmlDeviceGetEnforcedPowerLimit", gpu),
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
        began, nvml, gpu = time.monotonic(), self._nvml, self._handle
        while not self._stop.wait(EVERY_S):
            self._samples.append(
                [
                    round(time.monotonic() - began, 2),
                    nvml.number("nvmlDeviceGetClockInfo", gpu, CLOCK_SM),
                    nvml.watts("nvmlDeviceGetPowerUsage", gpu),
                    nvml.celsius(gpu),
                ]
            )
            reasons = nvml.throttle_bits(gpu) or 0
            self._reasons.update(word for bit, word in THROTTLE.items() if reasons & bit)
