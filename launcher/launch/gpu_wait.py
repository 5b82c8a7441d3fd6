"""`run --wait`: wait until the GPUs of a launch are free, in turn with the others who wait."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from launcher.config.inventory import HostEntry
from launcher.durations import format_duration
from launcher.errors import GpusBusy, HostError, WaitTimedOut
from launcher.follow.outcome import Outcome
from launcher.follow.phases import Stopwatch
from launcher.launch.launch import CheckedLaunch, is_busy
from launcher.launch.request import LaunchRequest
from launcher.launch.wait_queue import WaitQueue
from launcher.remote.agent import ALL_BUT_USE, AgentRequest, query_agent
from launcher.remote.fanout import fanout
from launcher.text import spell_duration
from launcher.transports.base import Closing
from preflight import regex as re
from preflight.checks.finding import Finding, blocks_launch
from preflight.checks.runner import check_host
from preflight.decide.gpu_signs import resolve_gpus
from preflight.decide.usable_gpus import select_gpus
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.job import Job

POLL_S = 20.0
AGAIN_S = 600.0
SETTLE_S = 2.0  # how long hosts have to say that no client is before this launch; a second more for each host
_TURN_S = 0.2
_LINES = 12
_LOST = re.compile(r"\S+: GPU \S+ is claimed by ")
"""What a host says that refuses to start (launcher/onhost/supervisor/gpu_claims.py)."""
_CHANGES = re.compile(r"[\d.]+ (?:GiB|s|min|h|d)\b")  # a change of ages and sizes alone is not printed


def find_busy(facts: HostFacts, entry: HostEntry, job: Job, ignore: frozenset[str]) -> tuple[Finding, ...]:
    """Return why this host has not enough free GPUs for the job: the preflight's own findings. Pure.

    A pasted command that says how many ranks it wants is given fewer when only those are free; one that
    waits, waits for all of them.
    """
    use = select_gpus(facts, job, entry.gpus)
    wanted = job.command.ranks_wanted(facts.host)
    if isinstance(job.gpus, str) and wanted is not None:
        job = replace(job, gpus=min(wanted, len(use.candidates)))
    found = check_host(facts, job, entry.expect, ignore=ignore | entry.ignore, allowed=entry.gpus)
    return tuple(each for each in found if is_busy(each) and blocks_launch(each))


def list_wanted_gpus(facts: HostFacts, entry: HostEntry, job: Job) -> tuple[str, ...]:
    """Return the UUIDs of the GPUs that the job may use on a host."""
    candidates = select_gpus(facts, job, entry.gpus).candidates
    known = [gpu.uuid for gpu in facts.known_gpus if gpu.index in candidates]
    return tuple(uuid for uuid in known if not isinstance(uuid, Missing))


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at all hosts."""

    facts: Mapping[str, HostFacts]
    lines: tuple[str, ...]  # why the launch has to wait
    wants_gpus: bool


def check_in_turn(
    waiting: "GpuWait", check: Callable[[], CheckedLaunch], stopwatch: Stopwatch
) -> CheckedLaunch:
    """Check the hosts; where only busy GPUs stop the launch, or others wait for them, wait and check again.

    The places in the queues are kept until the run has started, and so holds its claims. Raises what `check`
    raises, and WaitTimedOut.
    """
    while True:
        prepared, document = None, None
        try:
            prepared = check()
        except GpusBusy as error:
            document = error.document
        if prepared is None or not waiting.has_turn:
            try:
                with stopwatch.phase("wait"):
                    waited = waiting.wait_until_free()
            except WaitTimedOut as error:
                raise error if document is None else error.with_document(document) from None
            if prepared is None or waited:
                continue
        return replace(prepared, launch=replace(prepared.launch, on_started=lambda _: waiting.close()))


def has_lost_gpus(outcome: Outcome) -> bool:
    """Return whether nothing was started because another run claimed a GPU after the check."""
    return outcome.verdict == "aborted" and bool(_LOST.match(outcome.why))


class GpuWait(Closing):
    """One launch's wait. Closing it leaves the queues."""

    def __init__(self, launch: LaunchRequest, job: Job, wait_s: float, say: Callable[[str], None]) -> None:
        self._launch = launch
        self._job = job
        self._wait_s = wait_s
        self._say = say
        self._deadline = time.monotonic() + wait_s
        self._queue: WaitQueue | None = None
        self.has_turn = False
        self.waited = False
        self._last_news: tuple[str, ...] = ()
        self._say_again_at = 0.0

    def wait_until_free(self) -> bool:
        """Return once it is this launch's turn and its GPUs are free: True if that took a while.

        Raises WaitTimedOut, or the HostError of a host that cannot be used at the first look.
        """
        waited = self.has_turn  # called again: the check of the whole launch has found them busy
        if waited and time.monotonic() >= self._deadline:
            raise self._timed_out(("the check of the whole launch still finds them in use",))
        while True:
            if waited:
                self._pass_time()
            look = self._look()
            if not look.wants_gpus:
                return False
            self._advance(look)
            if self.has_turn and not look.lines:
                return waited
            reasons = (*look.lines, *(self._queue.lines() if self._queue is not None else ()))
            if time.monotonic() >= self._deadline:
                raise self._timed_out(reasons)
            self._report(reasons)
            waited = self.waited = True

    def close(self) -> None:
        """Leave the queues."""
        if self._queue is not None:
            self._queue.close()
        self._queue = None

    def _advance(self, look: _Look) -> None:
        """Take places in the queues, and read what hosts say. Raises HostError before any wait."""
        entries = self._launch.entries
        try:
            if self._queue is None:
                if len(look.facts) < len(entries):
                    return
                gpus = {
                    each.name: list_wanted_gpus(look.facts[each.name], each, self._job) for each in entries
                }
                self._queue = WaitQueue(entries, gpus, self._launch.connections, self._launch.job.name)
            settled = time.monotonic() + SETTLE_S + len(entries)
            while not self.has_turn and not self._queue.lines() and time.monotonic() < settled:
                self.has_turn = self._queue.step()
                time.sleep(0 if self.has_turn else _TURN_S / 4)
        except HostError as error:
            if not self.waited:
                raise
            self._leave(error)

    def _pass_time(self) -> None:
        until = min(time.monotonic() + POLL_S, self._deadline)
        had = self.has_turn
        while time.monotonic() < until and self.has_turn == had:
            time.sleep(_TURN_S)
            try:
                self.has_turn = self._queue is not None and self._queue.step()
            except HostError as error:
                self._leave(error)
                return

    def _leave(self, error: HostError) -> None:
        """Give up all places after one was lost: to hold some while others are taken again could deadlock."""
        self.close()
        self.has_turn = False
        self._say(f"{error.message}; this run goes to the end of the queue")

    def _look(self) -> _Look:
        launch = self._launch

        def one(entry: HostEntry) -> HostFacts:
            with launch.connections.borrow(entry) as connection:
                return query_agent(connection, entry.python, AgentRequest(host=entry.name, skip=ALL_BUT_USE))

        facts: dict[str, HostFacts] = {}
        lines: list[str] = []
        for entry, result in zip(
            launch.entries, fanout(one, launch.entries, width=launch.preflight.width), strict=True
        ):
            if isinstance(result, HostFacts):
                facts[entry.name] = result
            elif not self.waited:
                raise result
            else:
                lines.append(result.message)
        self._job = (
            resolve_gpus(self._job, facts.values()) if len(facts) == len(launch.entries) else self._job
        )
        for entry in launch.entries:
            if entry.name in facts:
                found = find_busy(facts[entry.name], entry, self._job, launch.preflight.ignore)
                lines += [f"{entry.name} {each.subject}: {each.message}" for each in found]
        return _Look(facts, tuple(lines), self._job.wants_gpus)

    def _report(self, reasons: Sequence[str]) -> None:
        """Say what is waited for when it has changed, and now and then."""
        now = time.monotonic()
        news = tuple(_CHANGES.sub("", each) for each in reasons)
        if news == self._last_news and now < self._say_again_at:
            return
        self._last_news, self._say_again_at = news, now + AGAIN_S
        left = spell_duration(max(0.0, self._deadline - now))
        self._say(f"waiting for GPUs, {left} left; Ctrl-C leaves the queue")
        for line in _bounded(reasons):
            self._say(f"  {line}")

    def _timed_out(self, reasons: Sequence[str]) -> WaitTimedOut:
        what = "\n".join(_bounded(reasons)) or "a host did not say who waits for them"
        return WaitTimedOut(
            f"nothing was started: the GPUs were not free within {format_duration(self._wait_s)}\n{what}",
            "wait longer, use other GPUs with --gpus, or other hosts",
        )


def _bounded(lines: Sequence[str]) -> list[str]:
    more = len(lines) - _LINES
    return [*lines[:_LINES], *([f"and {more} more"] if more > 0 else [])]
