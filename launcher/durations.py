"""Durations as people type them: `90` and `30s` are seconds; `10m`, `2h`, `30d`."""

from preflight import regex as re

EXPECTED = "a duration such as 90, 30s, 10m, 2h or 30d"
PATTERN = r"[0-9]{1,12}(?:\.[0-9]{1,9})?(?:s|m|min|h|d)?"

_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(s|m|min|h|d)?")
_SECONDS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS = (("d", 86400.0), ("h", 3600.0), ("m", 60.0))


def parse_duration(text: str) -> float | None:
    """Return seconds, or None where the text is not a duration."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _SECONDS[match[2]]


def format_duration(seconds: float) -> str:
    """Return the shortest text that `parse_duration` reads back as these seconds: `10m`, `90s`, `2h`."""
    for unit, size in _UNITS:
        if seconds and seconds % size == 0:
            return f"{round(seconds / size)}{unit}"
    return f"{round(seconds, 3):.15g}s"
