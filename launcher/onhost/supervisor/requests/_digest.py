"""Digests of rank logs, for a client of more ranks than it reads: how many lines, the last, what alarms.

A log that is held is not sent. The log of a rank that has failed is released, and sent whole: the client
diagnoses it. The run directory has all logs in full.
"""

import contextlib
import os
import re
import time
from typing import Any

from ...event_file import MALFORMED, parse_event
from ..files import CHUNK

EVERY_S = 5.0
LONGEST = 400  # characters of a line
MAX_ALARMS = 20  # unlike alarming lines of one rank
MOST_CHUNKS = 64  # of one log at once; the rest when it grows again
HELD = re.compile(r"rank-([1-9]\d*)\.log")
ALARMING = re.compile(
    rb"error|exception|traceback|warning|fatal|critical|abort|segmentation|killed|out of memory"
    rb"|core dumped|\bnan\b"
)
DIGITS = str.maketrans("", "", "0123456789")


class LogDigest:
    """Digest of one log."""

    def __init__(self, rank: str) -> None:
        self.rank = rank
        self.lines = 0
        self.last = b""
        self._offset = 0
        self._rest = b""
        self._alarms: dict[str, tuple[str, int]] = {}  # without digits: the first such line, and how many

    def read(self, fd: int, most: int) -> bool:
        """Read what is new, at most so many chunks; return whether there were whole lines in it."""
        before = self.lines
        if os.fstat(fd).st_size < self._offset:  # it was cut
            self._offset = 0
        while most > 0 and (data := os.pread(fd, CHUNK, self._offset)):
            most -= 1
            self._offset += len(data)
            whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
            self._rest = self._rest[-CHUNK:]
            if newline:
                self._take(whole)
        return self.lines != before

    def _take(self, whole: bytes) -> None:
        self.lines += whole.count(b"\n") + 1
        self.last = whole.rpartition(b"\n")[2].rstrip(b"\r").rpartition(b"\r")[2] or self.last
        small = whole.lower()
        if ALARMING.search(small):
            for line, key in zip(whole.split(b"\n"), small.split(b"\n")):  # noqa: B905 - Python 3.9
                if ALARMING.search(key):
                    self._note(decode_line(line.rstrip(b"\r").rpartition(b"\r")[2]))

    def _note(self, line: str) -> None:
        key = line.translate(DIGITS)
        if key in self._alarms:
            first, count = self._alarms[key]
            self._alarms[key] = (first, count + 1)
        elif len(self._alarms) < MAX_ALARMS:
            self._alarms[key] = (line, 1)

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {"lines": self.lines, "last": decode_line(self.last), "said": dict(self._alarms.values())}


class HeldLogs:
    """Digests of the logs that are held, and when they are due."""

    def __init__(self) -> None:
        self._logs: dict[str, LogDigest] = {}
        self._released: set[str] = set()
        self._changed: set[str] = set()
        self._next = 0.0

    def holds(self, name: str) -> bool:
        """Return whether a log is held back."""
        return name not in self._released and HELD.fullmatch(name) is not None

    def read(self, name: str, fd: int, *, final: bool) -> None:
        """Read what is new in a log; `final`: all of it, for nothing is written any more."""
        found = HELD.fullmatch(name)
        if found is None:
            return
        digest = self._logs.setdefault(name, LogDigest(found[1]))
        if digest.read(fd, 1 << 30 if final else MOST_CHUNKS):
            self._changed.add(name)

    def on_events(self, data: bytes) -> None:
        """Release the logs of ranks that have failed, by new lines of events.jsonl."""
        for line in data.split(b"\n") if b'"rank_exit"' in data else ():
            event = parse_event(line)
            with contextlib.suppress(*MALFORMED):
                if event["event"] == "rank_exit" and event["code"] != 0 and not event["stopping"]:
                    self._released.add("rank-%d.log" % event["rank"])

    def take(self, *, final: bool) -> dict[str, Any]:
        """Return the digests that have changed since the last call, empty while they are not due."""
        now = time.monotonic()
        if not self._changed or (now < self._next and not final):
            return {}
        self._next = now + EVERY_S
        changed, self._changed = self._changed, set()
        return {self._logs[name].rank: self._logs[name].document() for name in changed}


def decode_line(line: bytes) -> str:
    """Return a line as text, cut where it is long."""
    return line.decode("utf-8", "replace")[:LONGEST]
