"""What the logs of a running launch show already: NaN losses, a loss stuck at 0.0, no progress."""

import re
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from preflight.diagnosis.live_diagnosis import LiveDiagnosis, LiveWarning

_RANK_LOG = re.compile(r"rank-(\d+)\.log")
# Only such lines are read, so that a rank that prints without end costs next to nothing.
_TELLING = (b"loss", b"Loss", b"grad_norm", b"grad norm")
_LONGEST_REST = 8192
_AT_ONCE = 200
"""Telling lines that are read of one piece (256 KiB): a script that prints a loss 50,000 times a second would
hold up the run's own output. Those with a NaN are read first, then the latest."""


class LiveLogScanner:
    """Cuts logs into lines as their bytes come and reads those about training."""

    def __init__(self) -> None:
        self._rests: dict[tuple[str, str], bytes] = {}
        self._has_read = False

    @cached_property
    def _diagnosis(self) -> "LiveDiagnosis":
        """What reads the lines; a launch does not wait for its modules before the first of them."""
        from preflight.diagnosis.live_diagnosis import LiveDiagnosis  # noqa: PLC0415

        self._has_read = True
        return LiveDiagnosis()

    def feed(self, host: str, log: str, data: bytes, at_s: float) -> list[str]:
        """Take bytes of a log; return what they make known for the first time. `at_s`: a growing clock."""
        rank = _RANK_LOG.fullmatch(log)
        if rank is None:
            return []
        whole, _, rest = (self._rests.pop((host, log), b"") + data).rpartition(b"\n")
        self._rests[host, log] = rest[-_LONGEST_REST:]
        if not any(word in whole for word in _TELLING):
            return []
        matching = [line for line in whole.split(b"\n") if any(word in line for word in _TELLING)]
        return [
            _words(warning)
            for line in _some(matching)
            for warning in self._diagnosis.feed(line.decode("utf-8", "replace"), int(rank[1]), host, at_s)
        ]

    def stalled(self, now_s: float) -> list[str]:
        """Return the ranks that have logged no step for much longer than they used to."""
        if not self._has_read:
            return []
        return [_words(warning) for warning in self._diagnosis.stalled(now_s)]


def _some(lines: list[bytes]) -> list[bytes]:
    if len(lines) <= _AT_ONCE:
        return lines
    bad = [place for place, line in enumerate(lines) if b"nan" in line.lower()]
    latest = range(len(lines) - _AT_ONCE // 2, len(lines))
    return [lines[place] for place in sorted({*bad[: _AT_ONCE // 2], *latest})]


def _words(warning: "LiveWarning") -> str:
    return f"{warning.host} rank {warning.rank}: {warning.text} (gpulaunch explain {warning.code})"
