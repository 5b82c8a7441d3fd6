"""Restoration of a run directory that was deleted under its run, from the known state and the open logs.

A report alone would not do: without its directory no client can find, stop or attach to the run, its logs
end, and no record names the owner of its GPUs. A run is never lost, and the one who types the `rm -r` of a
wrong directory is its own user.
"""

import contextlib
import json
import os
import time

from ..client_files import record_heartbeat
from ..files import CHUNK, read_json, write_file
from ..run_dir import DETACHED, SPEC, STATE, USAGE
from .client_liveness import ClientLiveness
from .supervised_run import SupervisedRun

SETTLE_S = 1.0  # what deletes the directory ends first, or finds it filled again and fails
RETRY_S = 5.0  # between attempts after a failure
MOST_LOGS = 256  # held open; a script may call any number of its files a log


class RunDirRestorer:
    """Detector of a deleted run directory, which creates it again.

    It holds the logs open, because a deleted file exists as long as a process does so. Such a file cannot be
    linked again, so what is in it, and what ranks still write to it, is copied to a file of the same name.
    """

    def __init__(self, run: SupervisedRun, attachment: ClientLiveness) -> None:
        self._run = run
        self._attachment = attachment
        self._spec = read_json(run.path(SPEC)) or {}
        self._logs: dict[str, list[int]] = {}  # name -> [descriptor, bytes copied]
        self._due = 0.0  # when to restore it; 0: nothing is missing
        self._was_deleted = False

    @property
    def in_progress(self) -> bool:
        """Whether files are missing, or deleted logs may have output to copy."""
        return self._was_deleted or self._due > 0

    def check(self) -> bool:
        """Restore what has been missing for a while, and copy new output; return whether any was restored."""
        if self._is_deleted():
            now = time.monotonic()
            self._due = self._due or now + SETTLE_S
            if now < self._due:
                return False
            self._put_back()
            self._due = now + RETRY_S
        else:
            self._due = 0.0
            self._hold_logs()
        if self._was_deleted:
            self._copy_logs()
        return self._due > 0

    def finish(self) -> None:
        """Restore what is missing, and copy the remaining output: no process of the run writes any more."""
        if self._is_deleted():
            self._put_back()
        while self._was_deleted and self._copy_logs():
            pass

    def _is_deleted(self) -> bool:
        return not (self._run.events.is_linked() and self._run.has(STATE))

    def _put_back(self) -> None:
        """Write the known state, so that clients can find the run."""
        self._was_deleted = True
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

    def _hold_logs(self) -> None:
        """Open the logs that are new."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._run.dir):
                is_log = name.endswith(".log") or name == USAGE
                if is_log and name not in self._logs and len(self._logs) < MOST_LOGS:
                    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                    self._logs[name] = [os.open(self._run.path(name), flags), 0]

    def _copy_logs(self) -> bool:
        """Copy new output of deleted logs, at most CHUNK of each; return whether any was found."""
        some = False
        for name, held in self._logs.items():
            with contextlib.suppress(OSError):
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                out = os.open(self._run.path(name), flags, 0o600)
                try:
                    if os.path.samestat(os.fstat(out), os.fstat(held[0])):
                        continue
                    held[1] = min(held[1], os.fstat(out).st_size)  # smaller: deleted once more
                    data = os.pread(held[0], CHUNK, held[1])
                    held[1] += os.pwrite(out, data, held[1])
                    some = some or bool(data)
                finally:
                    os.close(out)
        return some
