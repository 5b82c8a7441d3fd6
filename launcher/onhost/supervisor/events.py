"""events.jsonl: the events from all parts of a run, one line and one write each."""

import contextlib
import os
from typing import Any, Iterator

from ..event_file import EVENTS, EventReader, encode_event
from .files import CHUNK, write_file


def write_event(fd: int, name: str, fields: dict[str, object]) -> bytes:
    """Add one line to events.jsonl in one write; return the part that a full disk did not take."""
    data = encode_event(name, fields)
    try:
        return data[os.write(fd, data) :]
    except OSError:
        return data


class EventLog:
    """Events of a run, in a file held open, which survives that it is deleted or replaced."""

    def __init__(self, run_dir: str) -> None:
        self._path = os.path.join(run_dir, EVENTS)
        self._in = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        self._out = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._reader = EventReader(self._in)
        self._unwritten = b""  # rest of a write that a full disk did not take

    def write(self, name: str, **fields: object) -> None:
        """Add an event, in order, as soon as the disk takes it."""
        with contextlib.suppress(OSError):
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self._out, self._unwritten) :]
        if self._unwritten:  # keeps the order while the disk is full
            self._unwritten += encode_event(name, fields)
        else:
            self._unwritten = write_event(self._out, name, fields)

    def read_new(self) -> Iterator[dict[str, Any]]:
        """Yield the events added since the last call."""
        return self._reader.read_new()

    def is_linked(self) -> bool:
        """Return whether the open file is still the one found under the name."""
        with contextlib.suppress(OSError):
            return os.path.samestat(os.stat(self._path), os.fstat(self._out))
        return False

    def relocate(self) -> None:
        """Continue in a new events.jsonl that copies the deleted one: offsets hold. Raises OSError."""
        old, position = b"", os.lseek(self._in, 0, os.SEEK_CUR)
        while data := os.pread(self._in, CHUNK, len(old)):
            old += data
        write_file(self._path, old.decode("utf-8", "surrogateescape"))
        for mine, flags in ((self._in, os.O_RDONLY), (self._out, os.O_WRONLY | os.O_APPEND)):
            fresh = os.open(self._path, flags | os.O_CLOEXEC)
            os.dup2(fresh, mine, inheritable=False)
            os.close(fresh)
        os.lseek(self._in, position, os.SEEK_SET)
