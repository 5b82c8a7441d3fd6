"""Recordings of real hosts that may lie beside a checkout: more cases for tests that have their own."""

from pathlib import Path

EXTRA = Path(__file__).parents[2] / "shared" / "fixtures"
SMI = EXTRA / "nvidia-smi"
LOGS = EXTRA / "crash-logs"


def extra(pattern: str) -> list[Path]:
    """Return the recordings of nvidia-smi and its neighbours whose names match; none in a plain clone."""
    return sorted(SMI.glob(pattern))
