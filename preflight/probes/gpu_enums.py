"""Words of facts.Gpu that NVML's numbers and nvidia-smi's text are both turned into."""

NO_RESERVE = "no reserve is shown; used memory may include it"  # NVML v1, drivers before 510

THROTTLE = (
    (0x1, "idle"),
    (0x2, "applications_clocks"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
    (0x100, "display_clocks"),
)
"""Bits of nvmlClocksEventReasons in nvml.h."""

COMPUTE_MODES = ("default", "exclusive_thread", "prohibited", "exclusive_process")  # of nvmlComputeMode_t
