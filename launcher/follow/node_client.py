"""One node of a run, seen from the client: start its supervisor, follow it, reconnect at the exact byte."""

import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from launcher import errors, safe_json
from launcher.config.disconnect_options import LATE_START_S, START_TIMEOUT_S
from launcher.follow import protocol
from launcher.follow.awake_clock import AwakeClock
from launcher.follow.client_messages import ClientMessages
from launcher.follow.events import (
    DigestReport,
    Disconnected,
    HostEnded,
    HostLost,
    HostReport,
    HostStarted,
    LogOutput,
    RankDigest,
    Reconnected,
    RunEvent,
    StartRefused,
)
from launcher.follow.host_clock import HostClock
from launcher.follow.log_offsets import LogOffsets, ResumePoint
from launcher.follow.stop_timeout import StopPatience
from launcher.onhost.exit_status import describe_exit_code
from launcher.planning.plan import NodePlan
from launcher.remote.shell_errors import explain_no_answer
from launcher.rundir.end_state import explain_stall
from launcher.rundir.event_schema import is_time, validate_event
from launcher.rundir.state_schema import validate_answer, validate_frame, validate_state
from launcher.text import one_line, tail_lines
from launcher.transports.base import Connection, Stream
from launcher.transports.ssh.ssh_command import format_login

EVENTS = "events.jsonl"
LINES = (EVENTS, "usage.jsonl")  # JSON, a document a line; all else is output
LINK_TIMEOUT_S = 12.0  # a follower speaks every 2 s; then the link is dead, whatever TCP believes
START_S = 60.0
CUT = (
    "another process has cut it on the host (logrotate?); the local log keeps what came before, and continues"
)
MAX_LINE = 4 << 20  # bytes kept of a line of LINES whose end has not come: none of ours is a tenth as long
_LOCKED_OUT = (
    errors.AuthenticationFailed,
    errors.HostKeyUnknown,
    errors.HostKeyChanged,
    errors.PythonNotFound,
)  # a laptop offline is not
_FINAL = (*_LOCKED_OUT, errors.NameNotResolved, errors.HostNotContacted)
BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 4.0)
QUEUE_LENGTH = 16  # events that wait for the loop: a slow terminal slows the reading, not the memory
POLL_S = 0.1  # how long a host is waited for before words are sent to it


class NodeClient(threading.Thread):
    """Puts everything that happens on one host into the run's queue, until the run has ended on it."""

    def __init__(
        self,
        run_id: str,
        node: NodePlan,
        open_connection: Callable[[], Connection],
        start: "Callable[[], bytes] | ResumePoint",
        *,
        patience_s: float,
        events: "queue.Queue[RunEvent]",
        awake: AwakeClock | None = None,
    ) -> None:
        """`start` returns the request that starts the node, for one that does not run yet.

        `patience_s`: how long, awake, it may be silent; then its supervisor has ended its part of the run.
        """
        super().__init__(name=f"follow {node.host}", daemon=True)
        self._run_id = run_id
        self.host = node.host
        self._node = node
        self._open_connection = open_connection
        self.login = ""  # once it was reached, see format_login
        self._start_request = None if isinstance(start, ResumePoint) else start
        known = start if isinstance(start, ResumePoint) else ResumePoint()
        self._patience_s = patience_s
        self._events = events
        self.poll_s = POLL_S
        self._stream: Stream | None = None
        self._messages = ClientMessages()
        self.offsets = LogOffsets(known)
        self.options = known.options  # of each request to follow it, after a broken connection too
        self._rests = dict.fromkeys(LINES, b"")
        self._clock = HostClock()
        self._ended_at: float | None = None
        self._awake = awake or AwakeClock()
        self._heard = self._awake.read()
        self._running_there = self._is_stalled = self._given_up = self._still_running = False
        self._may_run = False  # it was asked to start, and nothing says that it did not
        self._refused: StartRefused | None = None  # its start was not answered, and it may run all the same
        self._refused_at = 0.0
        self._late_s = LATE_START_S  # after which a start that was not answered comes about no more
        self._done = self._left = False  # the latter: events are no longer read
        self._stop_patience = StopPatience(self._awake)
        self._give_up_reason = ""

    def stop_run(self, grace_s: float, why: str, *, stacks: bool = False, failed: bool = False) -> None:
        """Have the host's supervisor end the run: SIGTERM, `grace_s`, SIGKILL; sent once there is a link.

        `stacks`: it hangs, and the stacks of its ranks are written before that. `failed`: no person stops it.
        """
        self._messages.stop(grace_s, why, stacks=stacks, failed=failed)
        self._stop_patience.start(grace_s, stacks=stacks)

    def mark_lost(self, why: str, *, still_running: bool = False) -> None:
        """Wait for the host no longer: it has died; `still_running`: or it is only not reached."""
        self._give_up_reason = f"{why}; " if why else ""
        self._given_up, self._still_running = True, still_running

    def detach(self) -> None:
        """Have the run continue without us; the host answers with the event "detached"."""
        self._messages.detach()

    def close(self) -> None:
        """Follow no more; the run continues on the host, or ends as its `on_disconnect` says."""
        self._messages.close()

    @property
    def is_connected(self) -> bool:
        """Whether what it has to say is sent now."""
        return self._stream is not None

    def run(self) -> None:
        """Follow to the end, through as many connections as it takes."""
        try:
            if self._start_request is not None:
                self._first()
            while not self._done:
                self._again()
        except Exception as error:  # noqa: BLE001 - a thread's error must reach the loop, or the run would wait forever
            self._finish(HostLost(self.host, f"following it failed: {error!r}"))

    def _put(self, event: RunEvent) -> None:
        """Hand it to the loop; while a slow terminal holds that up, the host still hears that we live.

        If it has reported all and gone, or the link is, its reports are handed over all the same.
        """
        while not self._left:
            try:
                self._events.put(event, timeout=0.5)
            except queue.Full:
                if self._stream is not None:
                    with suppress(errors.HostError):
                        self._send_messages(self._stream)
            else:
                return

    def _finish(self, last: RunEvent) -> None:
        self._done = True
        self._put(last)

    def _first(self) -> None:
        argv = protocol.build_supervisor_argv(self._node.python, "start", self._run_id)
        assert self._start_request is not None  # noqa: S101 - run() has asked
        try:
            self._start_over_any(argv, self._start_request())
        except errors.HostError as error:
            if self._running_there:
                self._put(Disconnected(self.host, error.detail))
                return
            self._refused = StartRefused(self.host, error.detail, error.fix)
            self._refused_at = self._awake.read()
            if not self._may_run:
                self._finish(self._refused)
            else:
                self._put_error("its start", f"{error.detail}; asking whether it runs all the same")

    def _start_over_any(self, argv: tuple[str, ...], body: bytes) -> None:
        """Start over a connection that was held open, or a new one where that has died meanwhile."""
        for is_last in (False, True):
            with self._open_connection() as connection:
                try:
                    self._converse(connection, argv, body, self._on_start)
                except (errors.ConnectionLost, errors.ConnectionTimedOut):
                    if is_last or self._may_run:
                        raise
                else:
                    return

    def _again(self) -> None:
        """Reconnect with growing pauses until it works or patience ends; it is tried before it is judged."""
        for attempt in range(1000):
            if self._given_up or (attempt and self._is_lost()):
                why = f"{self._give_up_reason}not reached again for {self._silent_s():.0f} s"
                self._finish(HostLost(self.host, why, still_running=self._still_running))
                return
            if self._running_there or attempt:
                time.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])
            if self._messages.ends:
                self._done = self._left = True
                return
            try:
                with self._open_connection() as connection:
                    argv = protocol.build_supervisor_argv(self._node.python, "follow", self._run_id)
                    known = {"ends": self.offsets.ends, **self.options}
                    body = protocol.follow_request(self._run_id, self.offsets.on_host, **known)
                    self._converse(connection, argv, body, self._on_follow)
                    return
            except (
                errors.ContainerStopped,
                errors.StepEnded,
            ) as error:  # its processes ended too, the supervisor as well
                self._finish(HostLost(self.host, f"{error.detail}; its part of the run has ended with it"))
                return
            except errors.GpulaunchError as error:
                if self._refused is None:
                    if isinstance(error, _FINAL) and not self._running_there:
                        self._finish(HostLost(self.host, error.message))  # no patience lets us in
                        return
                    why = error.message.removeprefix(f"{self.host}: ")
                    self._put(Disconnected(self.host, why, error.fix, isinstance(error, _LOCKED_OUT)))
                if attempt and self._running_there and self._silent_s() < 1.0:
                    return  # it was back for a while: start the pauses anew

    def _silent_s(self) -> float:
        """Return for how long the host has been silent while we were awake."""
        return self._awake.read() - self._heard

    def _is_lost(self) -> bool:
        # A start that was not answered, and to which no client comes, has ended after its own time.
        patience_s = self._patience_s if self._refused is None else START_TIMEOUT_S
        return self._silent_s() > patience_s or self._stop_patience.is_over

    def _converse(
        self,
        connection: Connection,
        argv: tuple[str, ...],
        body: bytes,
        on_answer: Callable[[dict[str, Any]], None],
    ) -> None:
        """Send the request, then carry frames one way and words the other until the link ends."""
        self.login = format_login(connection)
        stream = connection.start(argv)
        try:
            stream.write(body)
            self._may_run = True
            self._carry(stream, on_answer)
        except protocol.ProtocolError as error:
            raise errors.HostError(self.host, f"the supervisor's answer cannot be read: {error}") from None
        finally:
            if self._stream is not None:
                self._given_up = False  # it has answered: what was concluded of its silence was wrong
            self._stream = None
            stream.close()

    def _carry(self, stream: Stream, on_answer: Callable[[dict[str, Any]], None]) -> None:
        reader = protocol.FrameReader()
        answered, stderr = False, b""
        heard = self._awake.read()
        while not self._done:
            data = stream.read(self.poll_s)
            stderr = (stderr + stream.read_stderr())[-protocol.PREAMBLE_KEPT :]
            now = self._awake.read()
            if data == b"":
                raise self._ended(stream, stderr, None if answered else reader.preamble)
            if data:
                heard = now
                for frame in reader.feed(data):
                    if answered:
                        self._on_frame(frame)
                    else:
                        answered = True
                        self._stream = stream
                        on_answer(dict(frame.header))
                    self._heard = now
            if now - heard > (LINK_TIMEOUT_S if answered else START_S):
                raise errors.HostError(self.host, f"nothing heard for {now - heard:.0f} s")
            if answered:
                self._send_messages(stream)

    def _send_messages(self, stream: Stream) -> None:
        if self._messages.send(stream):
            self._done = self._left = True

    def _ended(self, stream: Stream, stderr: bytes, noise: bytes | None) -> errors.HostError:
        """Return why the channel ended; `noise` is what came in place of an answer, None after the answer."""
        status = stream.wait(1.0)
        stderr += stream.read_stderr()
        if noise is not None:
            refusal = explain_no_answer(self.host, self._node.python, status, stderr=stderr, noise=noise)
            if refusal is not None:
                self._may_run = False
                return refusal
        said = tail_lines(stderr or noise or b"")
        if status is not None:  # its program has ended, too: what it has not made by now it never will
            self._late_s = 0.0
            said = said or f"its program {describe_exit_code(status)}"
        return errors.HostError(self.host, "the supervisor's channel ended" + (f": {said}" if said else ""))

    def _on_start(self, answer: dict[str, Any]) -> None:
        if "refused" in answer:
            fix = one_line(str(answer.get("fix") or ""), 300)
            self._finish(StartRefused(self.host, str(answer["refused"]), fix))
            return
        _demand(validate_answer(answer))
        self._running_there = True
        self._clock.see(t=answer.get("t"), m=answer.get("m"))
        self._put(HostStarted(self.host, str((answer.get("state") or {}).get("run_dir") or "")))

    def _on_follow(self, answer: dict[str, Any]) -> None:
        if "refused" in answer:
            if self._refused is not None and self._awake.read() - self._refused_at < self._late_s:
                raise errors.HostError(
                    self.host, str(answer["refused"])
                )  # asked again: it may be about to start
            self._finish(self._refused or HostLost(self.host, str(answer["refused"]), forgotten=True))
            return
        _demand(validate_answer(answer))
        if self._running_there:
            self._put(Reconnected(self.host))
            return
        self._running_there, self._refused = True, None
        self._clock.see(t=answer.get("t"), m=answer.get("m"))
        run_dir = str((answer.get("state") or {}).get("run_dir") or "")
        self._put(HostStarted(self.host, run_dir, dict(answer.get("sizes") or {})))

    def _on_frame(self, frame: protocol.Frame) -> None:
        header = frame.header
        _demand(validate_frame(header))
        self._clock.see(t=header.get("t"), m=header.get("alive"))
        if "log" in header:
            self._on_log(header, frame.data)
        elif header.get("digest"):
            ranks = {
                int(rank): RankDigest(said["lines"], said["last"], said["said"])
                for rank, said in header["digest"].items()
            }
            self._put(DigestReport(self.host, ranks))
        elif "end" in header:
            wrong = validate_state(header["end"])
            odd = f"how it ended is not understood: {one_line(wrong, 160)}"
            self._finish(HostLost(self.host, odd) if wrong else self._end_of(header))
        elif "alive" in header:
            if (stall := header.get("stall")) and not self._is_stalled:
                self._put_error("the watch over its ranks", explain_stall(stall))
            self._is_stalled = bool(stall)
            if why := self._stop_patience.explain_end(header):
                self._finish(HostLost(self.host, why, still_running=True, answers=True))

    def _end_of(self, header: Mapping[str, Any]) -> HostEnded:
        state = dict(header["end"])
        at, now = state.get("ended"), header.get("t")
        if self._ended_at is None and is_time(at) and is_time(now):  # a full disk took no such event
            self._ended_at = time.time() - (now - at)
        return HostEnded(self.host, state, self._ended_at)

    def _on_log(self, header: Mapping[str, Any], data: bytes) -> None:
        """Take a log's next bytes, or its first ones after it was cut on the host."""
        log, is_cut = header["log"], bool(header.get("cut"))
        offset = self.offsets.advance(log, header["offset"], data, is_cut=is_cut)
        if is_cut:
            self._put_error(f"keeping {log} whole", CUT)
        if log != EVENTS:
            self._put(LogOutput(self.host, log, offset, data))
        if log not in LINES:
            return
        *lines, rest = (self._rests[log] + data).split(b"\n")
        self._rests[log] = rest[-MAX_LINE:]
        for line in lines:
            try:
                event = safe_json.loads(line)
            except ValueError:
                continue
            if validate_event(event):
                continue  # the file lies in the user's hands; a line that is not ours says nothing to us
            at = self._clock.date(event)
            if event["event"] == "ended":
                self._ended_at = at
            self._put(HostReport(self.host, event["event"], event, at))

    def _put_error(self, task: str, error: str) -> None:
        self._put(HostReport(self.host, "internal_error", {"what": task, "error": error}, time.time()))


def _demand(misfit: str) -> None:
    if misfit:
        raise protocol.ProtocolError(one_line(misfit, 160))
