"""The calculated peak of a GPU: compute from multiprocessors and clock, memory from clock and bus width.

FMA per clock and multiprocessor for dense fp16/bf16 with fp32 accumulation, from NVIDIA's architecture
whitepapers: 512 for 7.0, 7.5, 8.6, 8.9 and 12.0, 1024 for 8.0, 2048 for 9.0, 4096 for 10.0; GeForce boards of
8.6 and later have half of it. It gives 312 TFLOPS for an A100, 989 for an H100 SXM, 121 for an L4.
"""

from preflight.deep.measurements import DeviceFacts

FMA_PER_CLOCK = {
    **dict.fromkeys(("7.0", "7.5", "8.6", "8.9", "12.0"), 512),
    "8.0": 1024,
    "9.0": 2048,
    **dict.fromkeys(("10.0", "10.3"), 4096),
}
_HALVED = ("8.6", "8.9", "12.0")
POWER_BOUND_W = 250.0  # boards with less (T4, L4, A2, A10) reach no fraction of their clock's peak


def is_power_bound(facts: DeviceFacts) -> bool:
    """Return whether a peak says nothing of this board: its power limit is low, or not known."""
    return facts.power_limit_w is None or facts.power_limit_w < POWER_BOUND_W


def compute_tflops(facts: DeviceFacts) -> float | None:
    """Return the dense half-precision peak in TFLOPS, None where a factor is not known."""
    fma = FMA_PER_CLOCK.get(facts.capability)
    if fma is None or not facts.sms or not facts.clock_max_mhz:
        return None
    halved = facts.capability in _HALVED and "GeForce" in facts.model
    return facts.sms * facts.clock_max_mhz * 1e6 * fma * 2 / (2 if halved else 1) / 1e12


def compute_gbs(facts: DeviceFacts) -> float | None:
    """Return the memory's peak in GB/s, None where a factor is not known. Two transfers per clock."""
    if not facts.memory_clock_max_mhz or not facts.bus_bits:
        return None
    return facts.memory_clock_max_mhz * 1e6 * 2 * facts.bus_bits / 8 / 1e9
