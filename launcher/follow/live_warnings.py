"""What the logs of a running launch show already: NaN losses, a loss stuck at 0.0, no progress."""

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from preflight import regex as re

if TYPE_CHECKING:
    from preflight.diagnosis.live_diagnosis import LiveDiagnosis, LiveWarning

_RANK_LOG = re.compile(r"rank-(\d+)\.log")
# Only such lines are read, so that a rank that prints without end costs next to nothing.
_TELLING = (b"loss", b"Loss", b"grad_norm", b"grad norm")
_ANY_TELLING, _NAN = re.compile(b"|".join(_TELLING)), re.compile(b"nan")
_LONGEST_REST = 8192
_AT_ONCE = 200
"""Telling lines that are read of one piece (256 KiB): a script that prints a loss 50,000 times a second would
hold up the run's own output. Those with a NaN are read first, then the latest."""


class LiveLogScanner:
    """Cuts logs into lines as their bytes come and reads those about training."""

    def __init__(self) -> None:
        self._rests: dict[tuple[str, str], bytes] = {}
        self._ended: set[tuple[str, int | None]] = set()
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
        if not _is_telling(whole):
            return []
        return [
            _words(warning)
            for line in _some_telling(whole)
            for warning in self._diagnosis.feed(line.decode("utf-8", "replace"), int(rank[1]), host, at_s)
        ]

    def end(self, host: str, rank: int) -> None:
        """Expect no further step of a rank that has exited, whose last lines may come after this."""
        self._ended.add((host, rank))

    def list_stalled(self, now_s: float) -> list[str]:
        """Return the ranks that have logged no step for much longer than they used to."""
        if not self._has_read:
            return []
        silent = self._diagnosis.list_stalled(now_s)
        return [_words(rank) for rank in silent if (rank.host, rank.rank) not in self._ended]


def _some_telling(whole: bytes) -> list[bytes]:
    """Return the telling lines of a piece; of very many those with a NaN and the latest."""
    spans = list(islice(_find_lines(whole, _ANY_TELLING), _AT_ONCE + 1))
    if len(spans) > _AT_ONCE:
        bad = (span for span in _find_lines(whole.lower(), _NAN) if _is_telling(whole[slice(*span)]))
        latest = (span for span in _lines_from_end(whole) if _is_telling(whole[slice(*span)]))
        spans = sorted({*islice(bad, _AT_ONCE // 2), *islice(latest, _AT_ONCE // 2)})
    return [whole[start:end] for start, end in spans]


def _find_lines(whole: bytes, pattern: re.Pattern[bytes]) -> Iterator[tuple[int, int]]:
    """Yield where the lines with a match are, without a look at each line."""
    end = 0
    while found := pattern.search(whole, end):
        start, end = whole.rfind(b"\n", 0, found.start()) + 1, whole.find(b"\n", found.end())
        end = len(whole) if end < 0 else end
        yield start, end


def _lines_from_end(whole: bytes) -> Iterator[tuple[int, int]]:
    end = len(whole)
    while end >= 0:
        start = whole.rfind(b"\n", 0, end) + 1
        yield start, end
        end = start - 1


def _is_telling(text: bytes) -> bool:
    return any(word in text for word in _TELLING)


def _words(warning: "LiveWarning") -> str:
    return f"{warning.host} rank {warning.rank}: {warning.text} (gpulaunch explain {warning.code})"
