"""Warnings that are given while the lines of a run arrive. Pure: time comes in as an argument."""

from collections import deque

from preflight.diagnosis import trends
from preflight.diagnosis.lines import MAX_LINE, Line, unwrap
from preflight.diagnosis.series import Point, PointReader
from preflight.diagnosis.timestamps import parse_timestamp
from preflight.frozen import dataclass

_KEPT_POINTS = 400
_STALLED_FACTOR = 10.0
_STALLED_AT_LEAST_S = 300.0
_POINTS_FOR_PACE = 3


@dataclass(frozen=True, slots=True)
class LiveWarning:
    """Something that has gone bad in a run that continues; each is said once for a rank."""

    code: str
    text: str
    host: str
    rank: int | None


class LiveDiagnosis:
    """Reads lines as they come; memory stays bounded however long the run is."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, int | None], deque[Point]] = {}
        self._said: set[tuple[str, str, int | None]] = set()
        self._paces: dict[tuple[str, int | None], deque[float]] = {}
        self._reader = PointReader()
        self._order = 0

    def feed(
        self, line: str, rank: int | None = None, host: str = "", at_s: float | None = None
    ) -> tuple[LiveWarning, ...]:
        """Take one line, and return what it is the first to make known. `at_s`: a clock that only grows."""
        said: list[LiveWarning] = []
        for part in line.rstrip("\n")[:MAX_LINE].split("\r"):
            if part.strip():
                said += self._take(part, rank, host, at_s)
        return tuple(said)

    def list_stalled(self, now_s: float) -> tuple[LiveWarning, ...]:
        """Return the ranks that logged steps at a steady pace and have logged none for much longer since."""
        found = []
        for (host, rank), times in self._paces.items():
            pace = (times[-1] - times[0]) / (len(times) - 1) if len(times) >= _POINTS_FOR_PACE else 0.0
            silent = now_s - times[-1]
            if pace and silent > max(_STALLED_AT_LEAST_S, _STALLED_FACTOR * pace):
                text = f"no step for {silent:.0f} s; before, one came every {pace:.1f} s"
                found += self._once(LiveWarning("S24", text, host, rank))
        return tuple(found)

    def _take(self, part: str, rank: int | None, host: str, at_s: float | None) -> list[LiveWarning]:
        own_rank, bar, bare = unwrap(part)
        shown = own_rank if own_rank is not None else rank
        return [
            warning for text in (bar, bare) if text for warning in self._see(part, text, (host, shown), at_s)
        ]

    def _see(
        self, part: str, bare: str, key: tuple[str, int | None], at_s: float | None
    ) -> list[LiveWarning]:
        host, shown = key
        self._order += 1
        line = Line(self._order, bare, shown, host, host, self._order, parse_timestamp(part))
        point = self._reader.point_of(line)
        if point is None:
            return []
        points = self._points.setdefault(key, deque(maxlen=_KEPT_POINTS))
        points.append(point)
        if at_s is not None:
            self._paces.setdefault(key, deque(maxlen=_KEPT_POINTS)).append(at_s)
        bad = trends.detect_anomalies(points) if _looks_bad(point) else None
        if bad is None or bad.confidence != "certain":
            return []
        return self._once(LiveWarning(bad.code, bad.description, *key))

    def _once(self, warning: LiveWarning) -> list[LiveWarning]:
        key = (warning.code, warning.host, warning.rank)
        if key in self._said:
            return []
        self._said.add(key)
        return [warning]


def _looks_bad(point: Point) -> bool:
    """Whether a step is worth judging the series for; a sound one is not."""
    small_scale = point.scale is not None and point.scale < 1
    return point.loss == 0 or trends.is_bad(point.loss) or trends.is_bad(point.norm) or small_scale
