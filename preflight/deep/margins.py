"""How much slower than its expectation a measured value may be, by kind of device and of path."""

from collections.abc import Sequence

from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Margins:
    """Fractions of the expectation: below `warning` it is a warning, below `critical` critical."""

    warning: float
    critical: float


DEVICE = {"gpu": Margins(0.93, 0.85), "cpu": Margins(0.55, 0.40)}
"""Of peers: gpu-fryer blames 10 %, SuperBench 5 %, and 5 % of spread in a node is usual. The ranks on CPUs
share processors with whatever else runs, so only gross differences say something of the host."""
PATH = {"gpu": Margins(0.85, 0.70), "cpu": Margins(0.45, 0.30)}
"""Of copies to the host and of links: topology alone makes for a tenth."""
OWN_BEST = 0.95
PEAK_COMPUTE, PEAK_MEMORY = 0.60, 0.65  # of the calculated peak; healthy boards reach 75 to 90 %
FADE = 0.90  # of the first windows' rate, in the last ones: a GPU that slows down with heat


def median(values: Sequence[float]) -> float:
    """Return the middle one of at least one value, or the mean of the middle two.

    That of `statistics` takes a preflight as long to import as all modules of the deep checks together.
    """
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
