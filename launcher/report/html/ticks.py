"""Round values of an axis, and how they are written."""

import math

ABOUT = 5
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


def choose_ticks(low: float, high: float) -> list[float]:
    """Return about five round values between two."""
    rough = (high - low) / ABOUT
    magnitude = 10.0 ** math.floor(math.log10(rough))
    step = next(magnitude * factor for factor in (1, 2, 2.5, 5, 10) if magnitude * factor >= rough)
    return _multiples(step, low, high)


def choose_log_ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten between two positive values; where there are few, also their 2- and 5-fold."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    powers = [10.0**power for power in range(first, last + 1)]
    inside = [power for power in powers if low <= power <= high]
    if len(inside) >= 3:
        return inside[:: max(1, len(inside) // ABOUT)]
    finer = [power * factor for power in powers for factor in (1, 2, 5)]
    return [value for value in finer if low <= value <= high] or [low, high]


def time_ticks(low: float, high: float) -> list[float]:
    """Return about six times that people count in, in seconds."""
    rough = (high - low) / (ABOUT + 1)
    step = next((float(step) for step in _TIMES if step >= rough), None)
    return _multiples(step or 86400.0 * math.ceil(rough / 86400), low, high)


def time_label(seconds: float) -> str:
    """Return a time since the start: 30 s, 2:30 min, 1:05 h, 2 d 3 h."""
    whole = round(seconds)
    if abs(whole) < 60:
        return f"{whole} s" if whole else "0"
    if whole < 3600:
        return f"{whole // 60} min" if whole % 60 == 0 else f"{whole // 60}:{whole % 60:02d} min"
    if whole < 86400:
        return f"{whole // 3600} h" if whole % 3600 == 0 else f"{whole // 3600}:{whole % 3600 // 60:02d} h"
    days, hours = divmod(whole // 3600, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def format_tick(value: float) -> str:
    """Return a number of an axis in few characters."""
    if 1e4 <= abs(value) < 1e15:
        size, unit = next(each for each in _UNITS if abs(value) >= each[0])
        return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"


def _multiples(step: float, low: float, high: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    return [step * number for number in range(first, math.floor(high / step + 1e-9) + 1)]
