"""Measured rates as text, beside what is expected of them."""

from preflight.deep.comparison import Reading
from preflight.deep.margins import median
from preflight.deep.measurements import RankDeep

_SOURCES = {
    "peers": "that its peers in this run reach",
    "own best": "that it has reached itself",
    "peak": "of its calculated peak",
    "expect": "that `expect:` wants",
}
_MUCH = 0.1


def format_rate(value: float) -> str:
    """Return a rate with three digits and without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def describe_shortfall(reading: Reading) -> str:
    """Return "matrix products at 412 TFLOPS, 61 % of the 675 TFLOPS that its peers in this run reach"."""
    expected = reading.expected
    if expected is None:
        return f"{reading.label} at {format_rate(reading.value)} {reading.unit}"
    share = reading.value / expected.value if expected.value else 0.0
    value, wanted, unit = format_rate(reading.value), format_rate(expected.value), reading.unit
    return (
        f"{reading.label} at {value} {unit}, {share:.0%} of the {wanted} {unit} {_SOURCES[expected.source]}"
    )


def describe_waits(reading: Reading) -> str:
    """Return what kept a CPU rank from its processor, "" where that is little."""
    waits, words = reading.waits, ""
    if waits.throttled >= _MUCH:
        words += f"; the CPU quota of its control group held it back for {waits.throttled:.0%} of the time"
    if waits.waited >= _MUCH:
        words += f"; it waited for a processor, since other processes ran, for {waits.waited:.0%} of the time"
    return words


def describe_sensors(rank: RankDeep) -> str:
    """Return "; 1980 -> 1200 MHz, 310 W, 88 degrees C, throttled: hw_thermal", "" where NVML said nothing."""
    if rank.matmul is None or not rank.matmul.sensors:
        return ""
    first, last = rank.matmul.sensors[0], rank.matmul.sensors[-1]
    parts = []
    for at, unit in ((1, "MHz"), (2, "W"), (3, "°C")):
        one, two = (sample[at] if len(sample) > at else None for sample in (first, last))
        if two is not None:
            parts.append(
                f"{one:.0f} -> {two:.0f} {unit}" if one is not None and one != two else f"{two:.0f} {unit}"
            )
    reasons = ", ".join(rank.matmul.throttle)
    return f"; {', '.join(parts)}{f', throttled: {reasons}' if reasons else ''}" if parts else ""


def measure_fade(rank: RankDeep) -> float | None:
    """Return the last quarter's rate of a GPU's products as a share of the first quarter's."""
    if rank.matmul is None or not rank.on_gpu or len(rank.matmul.tflops) < 8:
        return None
    rates = rank.matmul.tflops
    quarter = len(rates) // 4
    first = median(rates[:quarter])
    return median(rates[-quarter:]) / first if first else None
