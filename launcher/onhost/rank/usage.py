"""Resource usage of this rank by the kernel's counters, for runs that are too short for samples."""

import os
import time

from .setup import start_ticks


def used() -> dict[str, float]:
    """Return the rank's peak memory, its CPU time with that of its children, and its age.

    VmHWM belongs to the current program; getrusage would report the peak of the launcher that was forked.
    """
    found: dict[str, float] = {}
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmHWM:"):
                found["rss_peak_mib"] = round(int(line.split()[1]) / 1024.0, 1)
    times = os.times()
    found["cpu_s"] = round(times.user + times.system + times.children_user + times.children_system, 3)
    began = start_ticks() / os.sysconf("SC_CLK_TCK")
    found["lived_s"] = round(time.clock_gettime(time.CLOCK_BOOTTIME) - began, 3)
    return found
