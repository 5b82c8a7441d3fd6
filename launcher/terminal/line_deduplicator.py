"""Lines of many ranks for one pair of eyes: what repeats rank 0 is counted instead of shown.

Nothing that only one rank says is folded, and no traceback. Files have every line.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

from launcher.text import sanitize
from preflight import regex as re
from preflight.frozen import dataclass

HOLD_S = 1.0  # how long another rank's line waits for rank 0 to say the same
DEDUP_WINDOW_S = 10.0  # the same from several ranks within this long is one message; later it is news
_KEPT = 4096
_WAITING = 2000
_DIGITS = str.maketrans("", "", "0123456789")
_ALARMING = re.compile(
    r"error|exception|traceback|fatal|critical|abort|segmentation|killed|out of memory|terminate called"
    r"|core dumped",
    re.IGNORECASE,
)
_TORCH_PREFIX = re.compile(r"\[rank\d+\]: ?")
_HEADER = "Traceback (most recent call last)"
_BETWEEN = ("During handling", "The above exception", _HEADER)
Value = TypeVar("Value")

LogSource: TypeAlias = tuple[str, str]  # host and log


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line, and who said it when."""

    source: LogSource
    line: str
    at: float

    @property
    def key(self) -> int:
        """What is the same in lines that differ only in numbers."""
        return hash(_uncoloured(self.line[:400]).translate(_DIGITS))


class LineDeduplicator:
    """Decides which lines are shown."""

    def __init__(self) -> None:
        self.folded = 0
        self._shown: OrderedDict[int, tuple[LogSource, float]] = OrderedDict()
        self._leading: OrderedDict[int, None] = OrderedDict()  # what rank 0 has said
        self._waiting: deque[LogLine] = deque()
        self._in_traceback: set[LogSource] = set()

    def add_lead(self, speaker: LogSource, lines: Iterable[str], now: float) -> None:
        """Take lines that are shown anyhow: rank 0's."""
        for line in lines:
            _keep(self._leading, LogLine(speaker, line, now).key, None)

    def add(self, speaker: LogSource, lines: Iterable[str], now: float) -> Iterator[LogLine]:
        """Take lines of another rank; yield those that are to be shown now."""
        for line in lines:
            said = LogLine(speaker, line, now)
            traceback = self._is_traceback(said)
            if not traceback and self._is_repeated(said):
                self.folded += 1
            elif traceback or _ALARMING.search(_uncoloured(line)):
                yield from self._release(speaker)  # what led to it
                yield self._show(said)
            else:
                self._waiting.append(said)
        while len(self._waiting) > _WAITING:
            yield from self._judge(self._waiting.popleft())

    def ready(self, now: float) -> Iterator[LogLine]:
        """Yield the lines that have waited long enough, and that no other rank has printed."""
        while self._waiting and now - self._waiting[0].at >= HOLD_S:
            yield from self._judge(self._waiting.popleft())

    def flush(self) -> Iterator[LogLine]:
        """Yield what still waits, where it is not a repetition."""
        return self.ready(float("inf"))

    def _release(self, speaker: LogSource) -> Iterator[LogLine]:
        waiting = [said for said in self._waiting if said.source == speaker]
        if waiting:
            self._waiting = deque(said for said in self._waiting if said.source != speaker)
        for said in waiting:
            yield from self._judge(said)

    def _judge(self, log_line: LogLine) -> Iterator[LogLine]:
        if self._is_repeated(log_line):
            self.folded += 1
        else:
            yield self._show(log_line)

    def _show(self, log_line: LogLine) -> LogLine:
        _keep(self._shown, log_line.key, (log_line.source, log_line.at))
        return log_line

    def _is_repeated(self, log_line: LogLine) -> bool:
        if log_line.key in self._leading:
            return True
        speaker, at = self._shown.get(log_line.key, (log_line.source, 0.0))
        return speaker != log_line.source and log_line.at - at < DEDUP_WINDOW_S

    def _is_traceback(self, log_line: LogLine) -> bool:
        """Whether the line belongs to one; its last line is the first that is not indented."""
        line = _uncoloured(log_line.line)
        if _HEADER in line and _bare(line).startswith(_HEADER):
            self._in_traceback.add(log_line.source)
            return True
        if log_line.source not in self._in_traceback:
            return False
        bare = _bare(line)
        if bare.strip() and not bare.startswith((" ", *_BETWEEN)):
            self._in_traceback.discard(log_line.source)
        return True


def _uncoloured(line: str) -> str:
    return sanitize(line, keep_lines=False) if "\x1b" in line else line


def _bare(line: str) -> str:
    """Return a line without the rank that torch writes before each line of a traceback."""
    return _TORCH_PREFIX.sub("", line, count=1) if line.startswith("[rank") else line


def _keep(kept: "OrderedDict[int, Value]", key: int, value: Value) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _KEPT:
        kept.popitem(last=False)
