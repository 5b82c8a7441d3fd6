"""The `on_end:` command that a run still owes its user: kept locally from its start until it has run once.

One file for each run, named as the run. Who holds its lock (flock) is to run the command: the client that
launched the run while it lives, and after that any later command on this machine. The file is deleted before
the command starts, so that no one runs it twice.
"""

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from launcher.errors import PathRefused
from launcher.local.home import user_state_dir
from launcher.local.safe_paths import join_below, open_below, remove_oldest, write_below
from launcher.rundir.run_id import is_run_id
from preflight.errors import MalformedFacts
from preflight.facts.json_codec import decode, encode
from preflight.frozen import dataclass

MAX_NOTICES = 200
_NAME = "{}.json"


@dataclass(frozen=True, slots=True)
class EndNotice:
    """The words of the command, the directory that it runs in, that of the local logs, and earlier starts."""

    words: tuple[str, ...]
    cwd: str
    logs: str
    earlier: tuple[str, ...] = ()  # the last start may have come to nothing, with its client


class HeldNotice:
    """A notice that this process alone may deliver until it closes it."""

    def __init__(self, notice: EndNotice) -> None:
        self.notice = notice
        self._run_id = ""
        self._fd = -1

    def keep(self, run_id: str) -> None:
        """Keep it for a start in place of the one before; else the command depends on this client alone."""
        former, self._run_id = (self._run_id, self._fd), run_id
        if former[0]:
            self.notice = replace(self.notice, earlier=(*self.notice.earlier, former[0]))
        try:
            write_below(notices_dir(), _NAME.format(run_id), json.dumps(encode(self.notice)) + "\n")
            self._fd = _locked(run_id)
            remove_oldest(notices_dir(), MAX_NOTICES)
        except (OSError, PathRefused):  # without a lock two could deliver it
            self._fd = -1
            with suppress(OSError, PathRefused):
                delete_notice(run_id)
        _drop(*former)

    def settle(self) -> None:
        """Take it as delivered: no other process delivers it any more."""
        _drop(self._run_id, self._fd)
        self._run_id, self._fd = "", -1

    def close(self) -> None:
        """Leave it to a later command, unless it has been settled."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @classmethod
    def take(cls, run_id: str) -> "HeldNotice | None":
        """Return the notice of a run; None where there is none, or another process is to deliver it."""
        try:
            fd = _locked(run_id)
            found = cls(decode(EndNotice, json.loads(os.pread(fd, os.fstat(fd).st_size, 0))))
        except (OSError, PathRefused, ValueError, MalformedFacts):
            return None
        found._run_id, found._fd = run_id, fd
        return found


def notices_dir() -> Path:
    """Return where notices are kept, one file each."""
    return user_state_dir() / "on-end"


def list_due_runs() -> tuple[str, ...]:
    """Return the runs whose notices are kept, some of which other processes hold."""
    folder = notices_dir()
    names = sorted(path.stem for path in folder.glob("*.json")) if folder.is_dir() else []
    return tuple(name for name in names if is_run_id(name))


def delete_notice(run_id: str) -> None:
    """Drop the notice of a run that has been removed."""
    join_below(notices_dir(), _NAME.format(run_id)).unlink(missing_ok=True)


def _locked(run_id: str) -> int:
    """Return the open file of a notice with its lock. Raises OSError where another process has either."""
    fd = open_below(notices_dir(), _NAME.format(run_id), os.O_RDWR)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(fd).st_nlink:
            raise FileNotFoundError("it has been delivered meanwhile")
    except OSError:
        os.close(fd)
        raise
    return fd


def _drop(run_id: str, fd: int) -> None:
    if fd >= 0:
        with suppress(OSError, PathRefused):
            delete_notice(run_id)
        os.close(fd)
