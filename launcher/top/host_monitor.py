"""One host of the screen: a connection that is held, the facts read over it, and the numbers that follow.

A thread for each host does all that may wait, so that a host that hangs delays no other. Its state is a
frozen record that it replaces; the screen is drawn from the last one.
"""

import threading
import time
import zlib
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import field, replace
from typing import Any, Literal

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError, HostError
from launcher.local.fanout_places import Places
from launcher.remote import rpc
from launcher.remote.agent import ALL_BUT_USE, AgentRequest, query_agent
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.program_source import build_stdin_command, read_program_source
from launcher.rundir.state_schema import validate_runs
from launcher.runs.request import send_request
from launcher.terminal.step_progress import ProgressParser, ProgressValues
from launcher.top.holders import GpuHolders, find_holders
from launcher.top.monitor_answer import GpuSample, LogTail, MonitorAnswer, parse_answer
from launcher.transports.base import Connection, Stream
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.job import DEFAULT_MAIN_PORT

SILENT_S = 30.0  # a monitor answers every 5 s; a connection that has been silent for so long is opened anew
INSPECT_EVERY_S = 120.0  # facts are read again when processes come or go, and after so long in any case
BLIND_INSPECT_S = 15.0  # without NVML the agent's numbers, from nvidia-smi, are all there is
SETTLE_S = 1.0  # between a change of processes and the inspection: the ranks of one launch come one by one
LEAST_PAUSE_S = 5.0
PAUSE_FACTOR = 10.0  # an inspection takes a tenth of the time at most, if processes come and go
FIRST_RETRY_S, LONGEST_RETRY_S = 2.0, 60.0
MONITOR = "the monitor"


@dataclass(frozen=True, slots=True)
class LogProgress:
    """How far a run is by its leading rank's log, and when (monotonic clock) that log grew last."""

    values: ProgressValues
    grew_at: float


@dataclass(frozen=True, slots=True)
class HostState:
    """All that is known of a host. Times are of the monotonic clock of this machine."""

    entry: HostEntry
    phase: Literal["connecting", "live", "lost"] = "connecting"
    facts: HostFacts | None = None
    facts_at: float = 0.0
    holders: Mapping[int, GpuHolders] = field(default_factory=dict)
    samples: Mapping[str, GpuSample] = field(default_factory=dict)
    missing: str = ""  # why the monitor cannot read GPUs
    runs: Mapping[str, Any] = field(default_factory=dict)  # the answer of mode list
    runs_at: float = 0.0  # wall clock
    runs_error: str = ""
    progress: Mapping[str, LogProgress] = field(default_factory=dict)
    heard_at: float = 0.0
    error: GpulaunchError | None = None
    retry_at: float = 0.0
    is_followed: bool = True  # False: it was asked once, and its silence since says nothing


class HostMonitor:
    """Follows one host until it is stopped. `places` bounds how many hosts are being connected to at once."""

    def __init__(self, entry: HostEntry, opener: OpenConnection, places: Places, *, every_s: float) -> None:
        self.state = HostState(entry)
        self.stopped = threading.Event()
        self._opener = opener
        self._places = places
        self._every_s = every_s
        self._connection: Connection | None = None
        self._parsers: dict[str, ProgressParser] = {}
        self._retry_s = FIRST_RETRY_S
        self._wanted = threading.Event()  # a person wants it inspected
        self._spread_s = zlib.crc32(entry.name.encode()) % 1000 / 1000 * LEAST_PAUSE_S

    def start(self) -> None:
        """Start; returns at once."""
        threading.Thread(target=self._run, name=f"top {self.state.entry.name}", daemon=True).start()

    def stop(self) -> None:
        """End; returns at once, and the connection is closed meanwhile."""
        self.stopped.set()

    def close(self) -> None:
        """Close the connection; the monitor on the host ends with it."""
        connection = self._connection
        if connection is not None:
            with suppress(GpulaunchError, OSError):
                connection.close()

    def inspect(self) -> None:
        """Read the facts again soon."""
        self._wanted.set()

    @property
    def connection(self) -> Connection | None:
        """The connection that is held, None while the host is lost."""
        return self._connection if self.state.phase == "live" else None

    def collect_once(self) -> None:
        """Connect, inspect and close. An error is in the state."""
        self.state = replace(self.state, is_followed=False)
        try:
            with self._opener(self.state.entry) as connection:
                self._inspect(connection)
        except GpulaunchError as error:
            self.state = replace(self.state, phase="lost", error=error)

    def _run(self) -> None:
        while not self.stopped.is_set():
            try:
                self._follow()
            except GpulaunchError as error:
                self._wait_to_retry(error)
            except Exception as bug:  # noqa: BLE001 - else the host's last numbers would stay as live ones
                said = f"gpulaunch failed on its answer: {bug!r}"
                self._wait_to_retry(HostError(self.state.entry.name, said))
            finally:
                self._connection = None

    def _wait_to_retry(self, error: GpulaunchError) -> None:
        deadline = time.monotonic() + self._retry_s
        self.state = replace(self.state, phase="lost", error=error, retry_at=deadline)
        self._wanted.clear()
        while time.monotonic() < deadline and not self._wanted.is_set():
            if self.stopped.wait(min(1.0, self._retry_s)):
                return
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)

    def _follow(self) -> None:
        """Hold a connection until it breaks. Raises GpulaunchError."""
        with self._places.hold():  # who waits for a silent host leaves it to others
            connection = self._opener(self.state.entry)
        with connection:
            self._connection = connection
            self._inspect(connection)
            self._retry_s = FIRST_RETRY_S
            with closing(self._start(connection)) as channel:
                self._take_answers(connection, channel)

    def _start(self, connection: Connection) -> Stream:
        python = self.state.entry.python
        argv, stdin = build_stdin_command(python, read_program_source("monitor"), b"", name="monitor.py")
        channel = connection.start(argv)
        channel.write(stdin + self._settings())
        return channel

    def _settings(self) -> bytes:
        """Return what the monitor is to watch: all GPUs that have a name, and the runs that live."""
        uuids = self._gpu_uuids()
        runs = [
            {"run_id": run["run_id"], "run_dir": run["run_dir"], "rank": _leading_rank(run)}
            for run in self.state.runs.get("runs", ())
            if run.get("alive") and run.get("run_dir")
        ]
        return rpc.encode_line({"every_s": self._every_s, "gpus": uuids, "runs": runs})

    def _gpu_uuids(self) -> list[str]:
        facts = self.state.facts
        gpus = () if facts is None else facts.known_gpus
        return [gpu.uuid for gpu in gpus if not isinstance(gpu.uuid, Missing)]

    def _take_answers(self, connection: Connection, channel: Stream) -> None:
        entry = self.state.entry
        answers = rpc.Answers(channel, entry.name, entry.python, MONITOR, turn_s=SILENT_S)
        schedule = _Schedule(self._spread_s)
        while not self.stopped.is_set():
            answer = parse_answer(entry.name, answers.next(SILENT_S))
            self._take(answer)
            if self._wanted.is_set() or schedule.is_due(answer, time.monotonic()):
                self._wanted.clear()
                began = time.monotonic()
                self._inspect(connection)
                channel.write(self._settings())
                schedule.note_inspection(began, time.monotonic())

    def _take(self, answer: MonitorAnswer) -> None:
        """Take an answer of the monitor into the state, of the GPUs and runs that it was asked about."""
        progress = dict(self.state.progress)
        requested = {str(run["run_id"]) for run in self.state.runs.get("runs", ())}
        for run_id, log in answer.runs.items():
            if run_id in requested:
                progress[run_id] = self._read_log(run_id, log)
        uuids = self._gpu_uuids()
        samples = {uuid: sample for uuid, sample in answer.gpus.items() if uuid in uuids}
        self.state = replace(
            self.state,
            phase="live",
            samples={**self.state.samples, **samples},
            missing=answer.missing,
            progress=progress,
            heard_at=time.monotonic(),
            error=None,
        )

    def _read_log(self, run_id: str, log: LogTail) -> LogProgress:
        now = time.monotonic()
        parser = self._parsers.setdefault(run_id, ProgressParser())
        # Tails overlap: the rest of the one before must not become a line with the start of this one.
        parser.feed(0, b"\n" + log.tail.encode())
        values = parser.read(now, [log.tail.replace("\n", "\r").rpartition("\r")[2]])
        if values.step is None:
            values = replace(values, step=log.step)  # nothing is printed, but the guard counts
        return LogProgress(values, now - log.age_s)

    def _inspect(self, connection: Connection) -> None:
        """Read facts and runs. Raises HostError when the facts cannot be read."""
        entry = self.state.entry
        request = AgentRequest(host=entry.name, ports=(DEFAULT_MAIN_PORT,), skip=ALL_BUT_USE)
        facts = query_agent(connection, entry.python, request)
        runs, error = self._list_runs(connection)
        now = time.monotonic()
        here = {str(run["run_id"]) for run in runs.get("runs", ())}
        self._parsers = {run_id: parser for run_id, parser in self._parsers.items() if run_id in here}
        self.state = replace(
            self.state,
            phase="live",
            facts=facts,
            facts_at=now,
            holders=find_holders(facts, self.state.entry.expect),
            samples={},
            runs=runs,
            runs_at=time.time(),
            runs_error=error,
            progress={run_id: log for run_id, log in self.state.progress.items() if run_id in here},
            heard_at=now,
            error=None,
        )
        for run in runs.get("runs", ()):
            self._read_first_tail(run)

    def _read_first_tail(self, run: Mapping[str, Any]) -> None:
        run_id = str(run["run_id"])
        if run_id in self.state.progress or _leading_rank(run) is None:
            return
        log = LogTail(str(run.get("tail") or ""), 0.0, None)
        progress = {**self.state.progress, run_id: self._read_log(run_id, log)}
        self.state = replace(self.state, progress=progress)

    def _list_runs(self, connection: Connection) -> tuple[Mapping[str, Any], str]:
        try:
            answer = send_request(connection, self.state.entry.python, {"mode": "list"})
        except GpulaunchError as error:  # GPUs are shown all the same
            return {}, error.detail
        runs, problem = validate_runs(answer)
        return runs, problem


class _Schedule:
    """When to inspect: after a change of the monitor's checksum, and now and then in any case."""

    def __init__(self, spread_s: float) -> None:
        self._requests = 1  # lines that the monitor was sent
        self._watch: int | None = None
        self._last = time.monotonic()
        self._due = self._last + INSPECT_EVERY_S + spread_s
        self._earliest = self._last + LEAST_PAUSE_S

    def is_due(self, answer: MonitorAnswer, now: float) -> bool:
        """Return whether to inspect now. The checksum of an answer to an older request means nothing."""
        if answer.missing:
            self._due = min(self._due, self._last + BLIND_INSPECT_S)
        elif answer.request == self._requests:
            if self._watch is not None and answer.watch != self._watch:
                self._due = min(self._due, max(now + SETTLE_S, self._earliest))
            self._watch = answer.watch
        return now >= self._due

    def note_inspection(self, began: float, now: float) -> None:
        """Take that an inspection was made, and the monitor sent a new request after it."""
        self._requests += 1
        self._watch = None
        self._last, self._due = now, now + INSPECT_EVERY_S
        self._earliest = now + max(LEAST_PAUSE_S, PAUSE_FACTOR * (now - began))


def _leading_rank(run: Mapping[str, Any]) -> int | None:
    """Return 0 on the host that has the leading rank, None on others: one log shows the progress of all."""
    return 0 if not run["spec"].get("first_rank") else None
