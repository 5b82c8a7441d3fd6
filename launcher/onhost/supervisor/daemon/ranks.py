"""The ranks of this node: who they are by their own word, and how each has ended by the kernel's."""

from __future__ import annotations

import os
from typing import Any, Iterator, NamedTuple

from ...procfs import read_stat
from .wakeup import Wakeup


class LiveRank(NamedTuple):
    """A living rank as it introduced itself; `fd` is its pidfd, -1 before Linux 5.3."""

    rank: int
    ticks: int
    fd: int


class EndedRank(NamedTuple):
    """A rank that has ended; `code` is None when it was not seen."""

    rank: int
    pid: int
    code: int | None


class RankTable:
    """Those that live, by pid, and the exit codes of the others, by rank."""

    def __init__(self, bell: Wakeup) -> None:
        self._bell = bell
        self._said: dict[int, int] = {}  # by rank: the code it said it would leave with
        self.living: dict[int, LiveRank] = {}
        self.codes: dict[int, int | None] = {}

    def on_event(self, event: dict[str, Any]) -> None:
        """Learn from what a rank has written; each is then watched through a pidfd."""
        name = event.get("event")
        if name == "script_exit":
            self._said[int(event["rank"])] = int(event["code"])
        if name != "rank":
            return
        pid = int(event["pid"])
        fd = -1
        try:
            fd = os.pidfd_open(pid)
            self._bell.add_fd(fd)
        except (OSError, AttributeError):
            pass  # gone already, or before Linux 5.3, where each tick looks instead
        self.living[pid] = LiveRank(int(event["rank"]), int(event["ticks"]), fd)

    def check(self) -> Iterator[EndedRank]:
        """Yield who has ended: the status is read from /proc before the parent, the launcher, reaps it."""
        for pid, known in list(self.living.items()):
            found = read_stat(pid)
            if found is None or found.start_ticks != known.ticks:
                yield self.drop(pid, self._said.get(known.rank))
            elif not found.lives:
                yield self.drop(pid, os.waitstatus_to_exitcode(found.status))

    def drop(self, pid: int, code: int | None) -> EndedRank:
        """Note that a living rank has ended."""
        known = self.living.pop(pid)
        if known.fd >= 0:
            self._bell.remove_fd(known.fd)
            os.close(known.fd)
        self.codes[known.rank] = code
        return EndedRank(known.rank, pid, code)

    def unseen(self) -> list[int]:
        """Return the ranks whose exit codes were not seen."""
        return [rank for rank, code in self.codes.items() if code is None]
