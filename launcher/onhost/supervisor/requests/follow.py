"""follow: send the logs and events from given byte offsets on, until the run has ended."""

import contextlib
import os
import select
import time
from typing import Any

from .. import client_files
from ..files import read_json
from ..inotify import CREATE, DELETE, DELETE_SELF, MODIFY, MOVE_SELF, MOVED_TO, OVERFLOW, Inotify
from ..next_start import is_kept, read_next
from ..node import is_on_this_node
from ..protocol import encode_frame, send_header
from ..run_dir import SPEC, STATE, describe_stall, inspect_run, is_alive, log_sizes, read_state
from ..run_processes import KILL_WAIT_S
from ._logs import LINES, LogReader

DELETIONS = DELETE | DELETE_SELF | MOVE_SELF | OVERFLOW
ALIVE_EVERY_S = 2.0
STACKS_S = 60.0  # for the stacks of a run that hangs
CLIENT_WAIT_S = 5.0
CLIENT_GONE = "its client is gone, and with it the step of the Slurm job"


class RunWatch:
    """Descriptors that are readable when there may be something new.

    `fds` is empty where only polls show that: the kernel or its limits refuse to watch, a process has ended,
    a file was deleted.
    """

    def __init__(self, run_dir: str, state: dict[str, Any]) -> None:
        self._files = Inotify()
        self.fds = [self._files.fd]
        watched = self._files.watch(run_dir, MODIFY | CREATE | MOVED_TO | DELETIONS)
        try:
            self.fds += [os.pidfd_open(state[who][0]) for who in ("supervisor", "guardian")]
        except (OSError, AttributeError, KeyError, TypeError):  # AttributeError: Python without pidfd_open
            watched = False
        if not watched:
            self.close()

    def close(self) -> None:
        """Watch no more."""
        for fd in self.fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        self.fds = []

    def has_news(self, readable: list[int] | None = None) -> bool:
        """Return whether a follower has something to read; `readable`: these descriptors are, else unknown.

        Takes the changes, so it comes before the read: a queue of them that overflows reports nothing more.
        """
        changes = self._files.read() if self.fds else []
        if any(fd in (readable or ()) for fd in self.fds[1:]) or any(kind & DELETIONS for kind, _ in changes):
            self.close()
            return True
        return any(name in LINES or name == STATE or name.endswith(".log") for _, name in changes)


def serve(run_dir: str, request: dict[str, Any]) -> int:
    """Send the state of the run, then follow it with the options of the request."""
    state = read_state(run_dir)
    if not request.get("viewer"):
        client_files.record_heartbeat(run_dir)
    clocks = {"t": time.time(), "m": time.monotonic() if is_on_this_node(state) else None}  # of one boot
    send_header({"state": state, "alive": is_alive(state), "sizes": log_sizes(run_dir), **clocks})
    return FollowSession(run_dir, request).run()


def follow_started(run_dir: str) -> int:
    """Follow what this client has started; a step of a Slurm job ends with it. Return the exit code."""
    spec = read_json(os.path.join(run_dir, SPEC)) or {}
    code = FollowSession(run_dir, {"digest": spec.get("digest")}).run()
    if spec.get("slurm_job"):
        from .stop import stop_and_wait

        stop_and_wait(
            run_dir, {"grace_s": spec.get("grace_s", client_files.STOP_GRACE_S), "why": CLIENT_GONE}
        )
    return code


class FollowSession:
    """Stream of a run directory's content as frames, which handles the client's words meanwhile."""

    def __init__(self, run_dir: str, request: dict[str, Any]) -> None:
        self._run_dir = run_dir
        self._logs = LogReader(run_dir, request)
        self._viewer = bool(request.get("viewer"))  # read-only: its presence keeps no attached run alive
        self._state: dict[str, Any] = {}
        self._out = memoryview(b"")
        self._unread = b""
        self._next_alive = 0.0
        self._kill_at = float("inf")  # when a supervisor that was asked to end the run has had its time
        self._wait_s = 0.02
        self._watch = RunWatch(run_dir, read_state(run_dir))
        self._is_quiet = False  # all that was written has been read, and more of it would wake us

    def run(self) -> int:
        """Follow until the run has ended, or the client says bye or is gone; return the exit code."""
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        ended = False
        while True:
            gone = self._turn(idle=not ended)
            if ended and not self._out:
                if not is_kept(read_next(self._run_dir)):  # else it is not known yet who restarts the run
                    collect_guardian()
                return 0
            if gone:
                return 0
            if not self._out and not ended and not self._is_quiet:
                ended = self._go_on()

    def _go_on(self) -> bool:
        """Queue new content, if any; return whether the run has ended."""
        self._watch.has_news()
        over = not self._running()  # checked before reading, so that nothing is written after the last read
        self._out = self._logs.read_new(final=over)
        if self._out:
            self._wait_s = 0.01
        else:
            self._wait_s = min(self._wait_s * 1.5, 0.1)
            self._is_quiet = bool(self._watch.fds)
            if over:
                self._out = encode_frame({"end": self._state, "t": time.time()})
                return True
        if not over and time.monotonic() >= self._next_alive:  # however much the ranks print
            self._out = memoryview(bytes(self._out) + self._say_alive())
        return False

    def _say_alive(self) -> bytes:
        """Return the word that the run lives; a supervisor that should have ended it is killed."""
        now = time.monotonic()
        self._next_alive = now + ALIVE_EVERY_S
        if now > self._kill_at:
            self._kill_at = float("inf")
            client_files.kill_supervisor(self._run_dir, self._state)
        stall = describe_stall(self._run_dir, self._state)
        return bytes(encode_frame({"alive": now, "t": time.time(), "stall": stall}))

    def _running(self) -> bool:
        # The last state read remains valid when the run directory has been deleted.
        self._state, alive = inspect_run(self._run_dir, self._state)
        return self._state.get("phase") != "ended" and alive and not self._logs.once

    def _turn(self, *, idle: bool) -> bool:
        """Transfer bytes in both directions without ever blocking; return True when the client is gone."""
        idle = idle and not self._out  # a client that sleeps takes nothing: it alone is waited for
        writers, watched, wait_s = [1] if self._out else [], [], self._wait_s if idle else CLIENT_WAIT_S
        if self._is_quiet and idle:
            watched, wait_s = self._watch.fds, max(0.0, self._next_alive - time.monotonic())
        readable, writable, _ = select.select([0, *watched], writers, [], wait_s)
        if writable:
            try:
                self._out = self._out[os.write(1, self._out) :]
            except BlockingIOError:
                pass
            except OSError:
                return True
        if self._is_quiet:
            self._is_quiet = bool(readable or writable) and not self._watch.has_news(readable)
        return 0 in readable and self._hear()

    def _hear(self) -> bool:
        """Read and handle the client's words; return True when it is gone."""
        try:
            data = os.read(0, 4096)
        except BlockingIOError:
            return False
        except OSError:  # a socket in place of a pipe, whose other end is gone
            return True
        if not data:
            return True
        *words, self._unread = (self._unread + data).split(b"\n")
        return any([self._obey(word.split()) for word in words])  # noqa: C419 - every word must be handled

    def _obey(self, words: list[bytes]) -> bool:
        if not self._viewer:
            client_files.record_heartbeat(self._run_dir)
        if words and words[0] == b"detach":
            # A full disk: the detach is not confirmed, and following continues.
            with contextlib.suppress(OSError):
                client_files.detach_run(self._run_dir)
        if words and words[0] in (b"stop", b"failed", b"hung"):
            grace_s = float(words[1]) if len(words) > 1 else client_files.STOP_GRACE_S
            why = b" ".join(words[2:]).decode("utf-8", "replace") or "asked to stop"
            request = client_files.StopRequest(
                why, grace_s, stacks=words[0] == b"hung", failed=words[0] != b"stop"
            )
            client_files.request_stop(self._run_dir, request, self._state)
            due = time.monotonic() + grace_s + KILL_WAIT_S + client_files.END_S + STACKS_S * request.stacks
            self._kill_at = min(self._kill_at, due)
        return bool(words) and words[0] == b"bye"


def collect_guardian() -> None:
    """Reap the guardian where it is our child: a container may have no other process that does."""
    give_up = time.monotonic() + 1.0
    while time.monotonic() < give_up:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
        time.sleep(0.01)
