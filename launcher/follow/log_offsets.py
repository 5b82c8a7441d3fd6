"""How far each log of a node has been read on its host, and where its bytes belong in the local file."""

from collections.abc import Callable, Mapping
from dataclasses import field

from launcher.follow.protocol import ProtocolError
from launcher.rundir.log_cuts import END_BYTES
from launcher.text import one_line
from preflight.frozen import dataclass

MAX_LOGS = 8192  # of one node, whatever its script calls .log: each is a local file
AddCut = Callable[[str, int, int], int]
"""Takes a log, where its bytes start locally and where they end; returns where they start after a cut."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A run that exists already: how much of its logs we have (`starts`: from where on in a local file)."""

    offsets: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)  # of protocol.follow_request
    starts: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, bytes] = field(default_factory=dict)  # the last bytes that we have


class LogOffsets:
    """The same for both, until a log is cut on its host: the local file keeps its bytes before that."""

    def __init__(self, known: ResumePoint) -> None:
        """`known`: what is local already."""
        self.on_host = dict(known.offsets)
        self._starts = dict(known.starts)
        self._ends = dict(known.ends)
        self.add_cut: AddCut = lambda _log, _start, end: end  # where logs are kept, it is kept with them
        self._from_anywhere = "since" in known.options  # the host says where a log starts

    @property
    def ends(self) -> dict[str, str]:
        """The last bytes of each, by which the host sees whether it was cut, in hexadecimal."""
        return {log: end.hex() for log, end in self._ends.items()}

    def advance(self, log: str, offset: int, data: bytes, *, is_cut: bool) -> int:
        """Take a log's next bytes; return their local offset. Raises ProtocolError for a gap, of any size."""
        here = self.on_host.get(log)
        if here is None and len(self.on_host) >= MAX_LOGS:
            raise ProtocolError("it reports more logs than a node has")
        if here is None:
            here = offset if self._from_anywhere else 0
        elif is_cut:
            start = self._starts.get(log, 0)
            self._starts[log] = self.add_cut(log, start, start + here)
            here = 0
        if offset != here:
            words = f"{log!r} continues at byte {offset}, expected byte {here}"
            raise ProtocolError(one_line(words, 160))
        self.on_host[log] = offset + len(data)
        self._ends[log] = ((b"" if is_cut else self._ends.get(log, b"")) + data[-END_BYTES:])[-END_BYTES:]
        return self._starts.get(log, 0) + offset
