"""Restoration of a run directory that was deleted under its run, from the known state and the open files.

A report alone would not do: without its directory no client can find, stop or attach to the run, its logs
end, and no record names the owner of its GPUs. A run is never lost, and the one who types the `rm -r` of a
wrong directory is its own user.
"""

from __future__ import annotations

import contextlib
import json
import os
import time

from ..client_files import record_heartbeat
from ..files import CHUNK, read_json, write_file
from ..run_dir import DETACHED, SILLY, SPEC, STATE, USAGE
from .client_liveness import ClientLiveness
from .run_state import SupervisedRun

RETRY_S = 5.0  # between attempts after a failure
SETTLE_S = 0.15  # without a change: what deletes the directory ends first, or finds it filled again and fails
SETTLE_MOST_S = 2.0  # something may write to the directory for ever
DELETION_S = 5.0  # a deletion is over after this: `rm -r` also removes restored names while it runs
NAMES_EVERY_S = 5.0  # how often inodes are matched to log names, for when a deletion hides the names
NAMELESS = " (deleted)"  # suffix in /proc of the path of an unlinked file


class RunDirRestorer:
    """Detector of a deleted run directory, which creates it again."""

    def __init__(self, run: SupervisedRun, attachment: ClientLiveness) -> None:
        self._run = run
        self._attachment = attachment
        self._spec = read_json(run.path(SPEC)) or {}
        self._logs = UnlinkedLogs()
        self._pids: list[int] = []
        self._next = self._next_names = self._deletion_until = 0.0
        self._settling: Settling | None = None

    @property
    def in_progress(self) -> bool:
        """Whether a deletion may be unfinished, or deleted files have output to copy."""
        return self._logs.are_held or time.monotonic() < self._deletion_until

    def check(self, pids: list[int]) -> bool:
        """Restore missing files; copy new output that these processes write to unlinked files.

        Return whether any was restored.
        """
        now = time.monotonic()
        if now >= self._next_names or pids != self._pids:  # a new rank has a new log
            self._next_names, self._pids = now + NAMES_EVERY_S, pids
            self._logs.learn_names(self._run.dir)
        restores = self._is_due(now)
        if restores:
            self._put_back()
            self._next = now + RETRY_S if self._is_deleted() else 0.0
        if now < self._deletion_until:
            self._logs.find(self._run.dir, pids)
        if restores or self._settling is None:
            self._logs.copy(self._run.dir)
        return restores

    def finish(self) -> None:
        """Restore what is missing, and copy the remaining output: no process of the run writes any more."""
        if self._is_deleted():
            self._put_back()
        while self._logs.copy(self._run.dir):
            pass

    def _is_due(self, now: float) -> bool:
        """Return whether files are missing and nothing deletes others any more."""
        if now < self._next or not self._is_deleted():
            self._settling = None
            return False
        self._deletion_until = now + DELETION_S
        if self._settling is None:
            self._settling = Settling(self._run.dir, now)
        return self._settling.is_over(now)

    def _is_deleted(self) -> bool:
        return not (self._run.events.is_linked() and self._run.has(STATE))

    def _put_back(self) -> None:
        """Write the known state, so that clients can find the run."""
        with contextlib.suppress(OSError):
            os.makedirs(self._run.dir, mode=0o700, exist_ok=True)
            write_file(self._run.path(SPEC), json.dumps(self._spec))
            self._run.events.relocate()
            if self._attachment.timeout_s is None:
                write_file(self._run.path(DETACHED), "")
            else:
                record_heartbeat(self._run.dir)
        self._run.save(self._run.state["phase"])
        self._run.emit_failure("keep the run directory", "%s was deleted" % self._run.dir)


class Settling:
    """Wait for the end of a deletion: until the directory has not changed for a while."""

    def __init__(self, place: str, now: float) -> None:
        self._place = place
        self._until = now + SETTLE_MOST_S
        self._changed, self._seen = now, self._mtime_ns()

    def is_over(self, now: float) -> bool:
        """Return whether it is over by now."""
        if (seen := self._mtime_ns()) != self._seen:
            self._changed, self._seen = now, seen
        return now >= min(self._changed + SETTLE_S, self._until)

    def _mtime_ns(self) -> int:
        try:
            return os.stat(self._place).st_mtime_ns
        except OSError:  # deleted as well
            return 0


class UnlinkedLogs:
    """Unlinked logs, whose new output is copied to files of the same names.

    An unlinked file exists as long as a process has it open, and cannot be linked again, so it is copied.
    """

    def __init__(self) -> None:
        self._files: dict[str, list[int]] = {}  # name -> [descriptor, bytes copied]
        self._names: dict[int, str] = {}  # inode -> name

    @property
    def are_held(self) -> bool:
        """Whether any was found."""
        return bool(self._files)

    def learn_names(self, run_dir: str) -> None:
        """Record which inode is which log: on NFS, a deleted open file gets a name that does not show it."""
        with contextlib.suppress(OSError), os.scandir(run_dir) as entries:
            self._names.update({entry.inode(): entry.name for entry in entries if is_log(entry.name)})

    def find(self, run_dir: str, pids: list[int]) -> None:
        """Open the run's files that these processes hold and that no longer have a name."""
        for pid in pids:
            place = "/proc/%d/fd" % pid
            with contextlib.suppress(OSError):
                for number in os.listdir(place):
                    self._hold(os.path.realpath(run_dir), os.path.join(place, number))

    def _hold(self, run_dir: str, link: str) -> None:
        with contextlib.suppress(OSError):
            path = os.readlink(link)
            directory, name = os.path.split(path.removesuffix(NAMELESS))
            if name.startswith(SILLY):
                name = self._names.get(os.stat(link).st_ino, "")
            elif not path.endswith(NAMELESS):
                return
            if directory == run_dir and is_log(name) and name not in self._files:
                self._files[name] = [os.open(link, os.O_RDONLY | os.O_CLOEXEC), 0]

    def copy(self, run_dir: str) -> bool:
        """Copy new output, at most CHUNK of each file; return whether any was found."""
        some = False
        for name, held in self._files.items():
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                out = os.open(os.path.join(run_dir, name), flags, 0o600)
                try:
                    held[1] = min(held[1], os.fstat(out).st_size)  # smaller: deleted once more
                    data = os.pread(held[0], CHUNK, held[1])
                    held[1] += os.pwrite(out, data, held[1])
                    some = some or bool(data)
                finally:
                    os.close(out)
        return some


def is_log(name: str) -> bool:
    """Return whether the run writes to this file of the run directory while it runs."""
    return name.endswith(".log") or name == USAGE
