"""The oldest NVIDIA driver that each CUDA release runs with.

Source: the table of driver versions in the CUDA release notes. A release without a row is unknown.
"""

from preflight.checks.versions import parse_release

MINIMUM_DRIVERS: tuple[tuple[int, str], ...] = (
    # CUDA major version -> the oldest Linux driver that runs it (minor-version compatibility within a major)
    (13, "580"),
    (12, "525.60.13"),
    (11, "450.80.02"),
)


def find_minimum_driver(cuda: str) -> str:
    """Return the oldest driver for a CUDA build, "" when the table does not know its major version."""
    major = parse_release(cuda)[:1]
    return next((driver for known, driver in MINIMUM_DRIVERS if (known,) == major), "")
