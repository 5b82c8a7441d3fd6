"""Ranks of this node: identity by their own report, exit codes by the kernel's."""

import os
from typing import Any, Iterator, NamedTuple

from ...procfs import read_stat
from .wakeup import Wakeup


class LiveRank(NamedTuple):
    """Live rank as it registered itself; `fd` is its pidfd, -1 before Linux 5.3."""

    rank: int
    ticks: int
    fd: int


class EndedRank(NamedTuple):
    """Rank that has ended; `code` is None when the kernel's status was missed."""

    rank: int
    pid: int
    code: int | None


class RankTable:
    """Live ranks by pid, and exit codes of the others by rank."""

    def __init__(self, bell: Wakeup) -> None:
        self._bell = bell
        self._announced: dict[int, int] = {}  # by rank: the exit code that it announced
        self.living: dict[int, LiveRank] = {}
        self.codes: dict[int, int | None] = {}

    def on_event(self, event: dict[str, Any]) -> None:
        """Register a rank from its event; each one is then watched through a pidfd."""
        name = event.get("event")
        if name == "script_exit":
            self._announced[int(event["rank"])] = int(event["code"])
        if name != "rank":
            return
        pid, rank, ticks, fd = int(event["pid"]), int(event["rank"]), int(event["ticks"]), -1
        if pid in self.living:  # a script may repeat it: one that stays open wakes it forever
            self.drop(pid, None)
        try:
            fd = os.pidfd_open(pid)
            self._bell.add_fd(fd)
        except (OSError, AttributeError):
            pass  # gone already, or before Linux 5.3, where each tick checks instead
        self.living[pid] = LiveRank(rank, ticks, fd)

    @property
    def are_watched(self) -> bool:
        """Whether the end of every live rank wakes the supervisor."""
        return all(known.fd >= 0 for known in self.living.values())

    def check(self) -> Iterator[EndedRank]:
        """Yield the ranks that have ended: /proc has the status until the launcher reaps them."""
        for pid, known in list(self.living.items()):
            found = read_stat(pid)
            if found is None or found.start_ticks != known.ticks:
                yield self.drop(pid, self._announced.get(known.rank))
            elif found.state in "ZX":  # it has failed, even where a thread of it hangs in a driver
                yield self.drop(pid, exit_code_of(pid, found.status, self._announced.get(known.rank)))

    def drop(self, pid: int, code: int | None) -> EndedRank:
        """Remove a live rank that has ended."""
        known = self.living.pop(pid)
        if known.fd >= 0:
            self._bell.remove_fd(known.fd)
            os.close(known.fd)
        self.codes[known.rank] = code
        return EndedRank(known.rank, pid, code)

    def list_unseen(self) -> list[int]:
        """Return the ranks whose exit codes are unknown."""
        return [rank for rank, code in self.codes.items() if code is None]


def exit_code_of(pid: int, status: int, announced: int | None) -> int | None:
    """Return the exit code of a zombie by its status in /proc, or by its parent, us; else what it said.

    The kernel shows the status 0 to who may not trace the process: one whose program has file capabilities
    or runs as another user (fs/proc/array.c). The link `exe` is under the same rule.
    """
    if status:
        return os.waitstatus_to_exitcode(status)
    try:
        os.readlink("/proc/%d/exe" % pid)
    except PermissionError:
        pass
    except OSError:  # a zombie has none
        return 0
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    except OSError:
        return announced
    if ended is None:
        return announced
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
