"""Dispatch run events to the local log files, the terminal and the usage statistics."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from launcher.follow.events import DigestReport, HostReport, LogOutput, RunEvent, Tick
from launcher.follow.live_warnings import LiveLogScanner
from launcher.follow.outcome import Outcome
from launcher.follow.phases import Phase, Phases
from launcher.follow.rank_digests import RankDigests
from launcher.follow.run_state import Notify, RunState, StopHosts
from launcher.follow.usage import UsageTracker
from launcher.launch.resume_watch import ResumeWatch
from launcher.onhost.exit_status import describe_exit_code
from launcher.rundir.log_store import LogStore
from launcher.terminal.screen import Screen
from launcher.text import one_line, spell_duration
from preflight import regex as re

USAGE_EVERY_S = 1.0  # how often the screen gets what ranks use; many hosts measure at moments of their own
STALLED_EVERY_S = 1.0  # how often all ranks are looked at for one that logs no more steps
LAG_S = 10.0  # how long after the end of a host's part its logs may still come without a word
_LINE_END = re.compile(rb"[\r\n]")
_SAVED = re.compile(rb"sav(?:ing|ed)\b.{0,80}checkpoint", re.IGNORECASE)
_MOST_CHECKPOINTS = 200
_MAIN = "rank-0.log"


class RunReporter:
    """Takes every event of a run: `handle` yields the stops that follow from it, and does all else."""

    def __init__(
        self,
        state: RunState,
        screen: Screen,
        book: LogStore,
        *,
        clock: Callable[[], float] = time.monotonic,
        over: bool = False,
        digest: bool = False,
    ) -> None:
        """`over`: the run has ended long ago; it is kept as it was, and nothing of it happens now.

        `digest`: hosts send digests of ranks other than 0, and the logs of those that fail.
        """
        self._over = over
        self.digests = RankDigests(state.plan) if digest else None
        if self.digests is not None:
            screen.notify(self.digests.notice)
        self.usages = UsageTracker(state.plan)
        self.phases = Phases(state)
        self._state = state
        self._screen = screen
        self._book = book
        self._clock = clock
        self._live = LiveLogScanner()
        self._phase = ("", 0.0)
        self._start_reported = self._lag_reported = False
        self._ended_at: dict[str, float] = {}  # by host
        self._failure_reported = False
        self._usage_reported_at = self._judged_steps = float("-inf")
        self._checkpoints: set[str] = set()
        self.resume = ResumeWatch(0)

    def output(self, output: LogOutput, *, shown_from: int = 0, new_from: int = 0) -> None:
        """Keep bytes of a log; show them from one offset on. From `new_from` on they are of now."""
        self._book.write(output.host, output.log, output.offset, output.data)
        self._say_what_failed()
        self._say_lag(output.host)
        if self.digests is not None and output.log.startswith("rank-") and output.log != _MAIN:
            return  # of a rank that has failed, from its first byte on: the end shows what matters
        fresh = output.data[max(0, shown_from - output.offset) :]
        if not fresh:
            return
        now = self._clock()
        self._screen.output(output.host, output.log, fresh, now)
        new = output.data[max(0, new_from - output.offset) :]
        if self._over or not new:
            return
        for text in self._live.feed(output.host, output.log, new, now):
            self.say(text, bad=True)
        if output.log == _MAIN:  # of every rank, looking would cost a tenth of it all
            self.resume.feed(new)
            self._note_checkpoints(output.host, new)

    def handle(self, event: RunEvent) -> Iterator[StopHosts]:
        """Take all but output."""
        at = getattr(event, "at", None)
        if isinstance(event, Tick):
            self._tick()
        elif isinstance(event, DigestReport):
            self._take_digest(event)
        elif isinstance(event, HostReport) and event.event == "usage":
            self._take_usage(event)
        elif isinstance(event, HostReport) and event.event == "script_exit":
            self.usages.end(event.host, event.fields)
        told_at = event.at if isinstance(event, HostReport) else None
        if self._state.all_ranks_fine:
            self._screen.mute_launcher()  # torch's exit barrier: the last node misses the first one's store
        for action in self._state.handle(event):
            if isinstance(action, Notify):
                self.say(action.text, bad=action.bad, at=told_at)
            else:
                self._screen.mute_launcher()
                self._screen.stop()
                yield action
        if isinstance(event, HostReport):
            self._note_end(event)
            if event.event == "ended":
                self._ended_at[event.host] = event.at
        if at is not None and not (self._over and isinstance(event, Tick)):
            self._see_phase(float(at))

    def _tick(self) -> None:
        now = self._clock()
        self._screen.tick(now)
        self._say_what_failed()
        if self._over:
            return
        for text in () if self.digests is None else self.digests.list_due(now):
            self._screen.notify(text)
        if now - self._judged_steps >= STALLED_EVERY_S:
            self._judged_steps = now
            for text in self._live.list_stalled(now):
                self.say(text, bad=True)
            if text := self.resume.find_step(now):
                self.say(f"{text}; gpulaunch stop {self._state.plan.run_id}", bad=True)

    def _take_digest(self, report: DigestReport) -> None:
        now = self._clock()
        for rank, line in self.digests.feed(report) if self.digests is not None else ():
            data = line.encode() + b"\n"
            self._screen.output(report.host, f"rank-{rank}.log", data, now)
            for text in () if self._over else self._live.feed(report.host, f"rank-{rank}.log", data, now):
                self.say(text, bad=True)

    def tell_digests(self) -> None:
        """Say what the ranks have printed whose logs stay on their hosts."""
        for text in () if self.digests is None else self.digests.summary():
            self._screen.notify(text)

    @property
    def logs_incomplete(self) -> str:
        """Why the local logs are not complete, "" where they are."""
        digested = "" if self.digests is None else self.digests.incomplete
        return self._book.failed or self._book.find_deleted() or digested

    def say(self, text: str, *, bad: bool = False, at: float | None = None) -> None:
        """Show it to the user, and keep it for the report; `at`: when it happened on its host."""
        if not self._over:
            self._screen.notify(text, bad=bad)
        if at is not None or not self._over:
            self._book.add_event(text, bad=bad, at=at)

    def _say_what_failed(self) -> None:
        """Say once that local logs are no longer written: the local disk ends no run."""
        if self._book.failed and not self._failure_reported:
            self._failure_reported = True
            still_running = "" if self._over else "the run continues, and "
            words = (
                f"local logs are no longer written ({self._book.failed}); {still_running}its hosts keep all"
            )
            self._screen.notify(f"{words}: gpulaunch fetch {self._state.plan.run_id}", bad=True)

    def _say_lag(self, host: str) -> None:
        """Say once that logs still come of what has ended: ranks may print faster than they are shown."""
        behind = time.time() - self._ended_at.get(host, float("inf"))
        if behind > LAG_S and not (self._lag_reported or self._over):
            self._lag_reported = True
            rest = f"Ctrl-C and detach leave the rest on it: gpulaunch logs {self._state.plan.run_id} -n 100"
            self.say(f"{host}: the run ended {spell_duration(behind)} ago, and its logs still come; {rest}")

    def with_measurements(self, outcome: Outcome, before: tuple[Phase, ...] = ()) -> Outcome:
        """Return the outcome with what was measured meanwhile; `before`: phases that came before this run."""
        measured = replace(
            outcome.measurements,
            phases=(*before, *self.phases.finish()),
            usage=self.usages.totals(),
            usage_missing=dict(self.usages.missing),
            clock_offset_s=dict(self.usages.clock_offset_s),
        )
        failure = outcome.cause.failure
        if failure is not None:
            room = self.usages.room_before(failure.host, failure.rank, failure.at)
            outcome = replace(outcome, cause=replace(outcome.cause, failure=replace(failure, room=room)))
        return replace(outcome, measurements=measured)

    def _take_usage(self, report: HostReport) -> None:
        missing = set(self.usages.missing)
        self.usages.feed(report.host, report.fields, report.at)
        for host in sorted(set(self.usages.missing) - missing):
            why = one_line(self.usages.missing[host])
            self.say(f"{host}: the use of its GPUs cannot be measured: {why}", bad=True)
        now = self._clock()
        if now - self._usage_reported_at >= USAGE_EVERY_S:
            self._usage_reported_at = now
            self._screen.take_usage(self.usages.latest())

    def _see_phase(self, at: float) -> None:
        self.phases.update(at)
        start = self.phases.start
        if self._over:
            return
        if start is not None and not self._start_reported:
            self._start_reported = True
            self._screen.notify(f"start took {spell_duration(start.seconds)}")
        phase = self.phases.current
        if phase != self._phase:
            self._phase = phase
            self._screen.phase(phase[0], self._clock() - max(0.0, time.time() - phase[1]))

    def _note_end(self, report: HostReport) -> None:
        rank, code = report.fields.get("rank"), report.exit_code
        if report.event == "rank_exit" and isinstance(rank, int):
            self._live.end(report.host, rank)
            said = f"rank {rank} on {report.host} {describe_exit_code(code)}"
            self._book.add_event(said, bad=code not in (0, None), at=report.at)

    def _note_checkpoints(self, host: str, data: bytes) -> None:
        lines = _LINE_END.split(data) if b"heckpoint" in data else []
        for line in lines:
            if b"heckpoint" not in line or _SAVED.search(line) is None:
                continue
            text = one_line(line)
            if text not in self._checkpoints and len(self._checkpoints) < _MOST_CHECKPOINTS:
                self._checkpoints.add(text)
                self._book.add_event(f"{host}: {text}")
