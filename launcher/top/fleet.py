"""All hosts of the screen, each followed by a thread of its own, and what is shown of them."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from launcher.config.inventory import HostEntry
from launcher.local.descriptors import raise_descriptor_limit
from launcher.local.fanout_places import Places
from launcher.planning.run_record import RunRecord, read_run_records
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import WIDTH, fanout
from launcher.rundir.end_state import LIVING
from launcher.runs.merged_runs import MergedRuns, merge_node_runs
from launcher.runs.remote_run import RemoteRun
from launcher.text import one_line
from launcher.top.holders import GpuHolders
from launcher.top.host_monitor import HostMonitor, HostState
from launcher.top.monitor_answer import GpuSample
from launcher.top.views import FleetView, GpuView, HostPhase, HostView, RunView
from launcher.transports.base import Closing, Connection
from preflight.decide.usable_gpus import explain_unusable, is_called
from preflight.facts.gpu import Gpu
from preflight.facts.missing import Fact, Missing

T = TypeVar("T")
_CLOSE_S = 1.0  # how long the end waits for connections to close; those that hang end with the process
STALE_S = 12.0  # a monitor answers every 5 s: without two of these answers its numbers are the past
_NOTE = 200
_NO_GPU = {"no-devices": "no GPU", "no-library": "no GPU (no NVIDIA driver)"}
_NOT_SEEN = GpuHolders((), None, None)


class Fleet(Closing):
    """The hosts and what is known of them now. `every_s`: between two samples of a host."""

    def __init__(
        self, entries: Sequence[HostEntry], opener: OpenConnection, *, every_s: float, width: int = WIDTH
    ) -> None:
        raise_descriptor_limit(3 * len(entries))
        places = Places(width)
        self._opener = opener
        self._width = width
        self._monitors = {
            entry.name: HostMonitor(entry, opener, places, every_s=every_s) for entry in entries
        }
        self._known: Mapping[str, RunRecord] = {}
        self._known_at: tuple[float, ...] | None = None
        self._merged = MergedRuns((), {})

    def start(self) -> None:
        """Start to follow all hosts; returns at once."""
        for monitor in self._monitors.values():
            monitor.start()

    def collect_once(self) -> None:
        """Ask every host once, side by side. What went wrong is in the view."""
        fanout(HostMonitor.collect_once, self._monitors.values(), width=self._width, reopens=True)

    def view(self) -> FleetView:
        """Return everything as it is now."""
        states = [monitor.state for monitor in self._monitors.values()]
        return build_view(states, self._runs(states), time.monotonic(), time.time())

    def state(self, host: str) -> HostState:
        """Return what is known of a host."""
        return self._monitors[host].state

    def inspect(self, host: str) -> None:
        """Read a host's facts again soon, or connect to it again now."""
        self._monitors[host].inspect()

    def open(self, entry: HostEntry) -> Connection:
        """Return the held connection, whose close() leaves it open, or a new one. Raises HostError."""
        monitor = self._monitors.get(entry.name)
        held = monitor.connection if monitor is not None else None
        return self._opener(entry) if held is None else _HeldConnection(held)

    def close(self) -> None:
        """End all; the programs on the hosts end with their connections."""
        monitors = list(self._monitors.values())
        for monitor in monitors:
            monitor.stop()
        threads = [threading.Thread(target=monitor.close, daemon=True) for monitor in monitors]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + _CLOSE_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _runs(self, states: Sequence[HostState]) -> MergedRuns:
        """Return the runs that the hosts report; put together again only where a host has reported anew."""
        reported = tuple(state.runs_at for state in states)
        if reported != self._known_at:
            self._known_at = reported
            self._known = read_run_records()
            answers = [(state.entry, state.runs, state.runs_at) for state in states if state.runs]
            names = [state.entry.name for state in states]
            self._merged = merge_node_runs(answers, self._known, names=names)
        return self._merged


class _HeldConnection(Closing):
    """A connection of the fleet that a dialog uses for a while."""

    def __init__(self, held: Connection) -> None:
        self.name = held.name
        self.command_line = held.command_line
        self.run = held.run
        self.start = held.start

    def close(self) -> None:
        """Leave it open."""


def build_view(states: Sequence[HostState], merged: MergedRuns, now: float, time_unix: float) -> FleetView:
    """Return the view at `now` (monotonic clock) and `time_unix` (wall clock)."""
    hosts = tuple(view_host(state, now) for state in states)
    seen = Counter(run_id for host in hosts for gpu in host.gpus for run_id in gpu.run_ids)
    return FleetView(time_unix, hosts, tuple(_runs(merged.runs, states, seen, now)))


def view_host(state: HostState, now: float) -> HostView:
    """Return one host as it is to be shown."""
    age_s = now - state.heard_at if state.heard_at else None
    phase: HostPhase = state.phase
    if phase == "live" and state.is_followed and age_s is not None and age_s > STALE_S:
        phase = "silent"
    retry_s = max(0.0, state.retry_at - now) if phase == "lost" and state.retry_at else None
    fix = state.error.fix if phase == "lost" and state.error is not None else ""
    read = () if state.facts is None else state.facts.gpus
    answers = read.code in _NO_GPU if isinstance(read, Missing) else not any(map(_explain_silent, read))
    known = () if state.facts is None else state.facts.known_gpus
    gpus = tuple(_gpu(gpu, state, now - state.facts_at) for gpu in known)
    return HostView(state.entry.name, phase, age_s, gpus, _note(state, phase), fix, retry_s, answers)


def _note(state: HostState, phase: HostPhase) -> str:
    if phase == "lost" and state.error is not None:
        return one_line(state.error.detail, _NOTE)
    if state.facts is not None and isinstance(state.facts.gpus, Missing):
        missing = state.facts.gpus
        return one_line(_NO_GPU.get(missing.code, f"GPUs not read: {missing.reason}"), _NOTE)
    reasons = [state.missing] if state.missing else []
    if state.facts is not None and isinstance(state.facts.processes, Missing):
        reasons.append(f"processes could not be read: {state.facts.processes.reason}")
    if state.runs_error:
        reasons.append(f"runs could not be listed: {state.runs_error}")
    return one_line("; ".join(reasons), _NOTE)


def _gpu(gpu: Gpu, state: HostState, since_s: float) -> GpuView:
    uuid = _known(gpu.uuid) or ""
    sample = state.samples.get(uuid) or _sample_of(gpu)
    holders = state.holders.get(gpu.index, _NOT_SEEN)
    aged = tuple(
        holder if holder.age_s is None else replace(holder, age_s=holder.age_s + since_s)
        for holder in holders.processes
    )
    return GpuView(
        gpu.index,
        uuid,
        one_line(_known(gpu.name) or "", 60),
        sample.busy_percent,
        sample.used_mib,
        gpu.total_mib,
        sample.power_w,
        sample.power_limit_w,
        sample.temperature_c,
        sample.throttle,
        aged,
        holders.claimed_by,
        holders.held,
        one_line(explain_unusable(gpu) or _explain_left_out(gpu, state.entry) or _explain_silent(gpu), 120),
    )


def _explain_left_out(gpu: Gpu, entry: HostEntry) -> str:
    named = not isinstance(entry.gpus, tuple) or any(is_called(gpu, word) for word in entry.gpus)
    return "" if named else f"is not among the GPUs of {entry.gpus_source}"


def _explain_silent(gpu: Gpu) -> str:
    """Say that a driver hangs, whatever it said before: nothing is known to be free then."""
    read = (gpu.memory, gpu.utilization_percent, gpu.power_w, gpu.temperature_c, gpu.processes)
    silent = (each.reason for each in read if isinstance(each, Missing) and each.code == "timeout")
    return next((f"the driver does not answer: {reason}" for reason in silent), "")


def _sample_of(gpu: Gpu) -> GpuSample:
    """Return what the agent has read of a GPU of which no sample has come yet."""
    return GpuSample(
        _known(gpu.utilization_percent),
        gpu.used_mib,
        _known(gpu.power_w),
        _known(gpu.power_limit_w),
        _known(gpu.temperature_c),
        _known(gpu.throttle),
    )


def _known(value: Fact[T]) -> T | None:
    return None if isinstance(value, Missing) else value


def _runs(
    runs: Iterable[RemoteRun], states: Sequence[HostState], seen: Mapping[str, int], now: float
) -> Iterable[RunView]:
    by_host = {state.entry.name: state for state in states}
    for run in runs:
        if run.status not in LIVING:
            continue
        leading = min(run.nodes, key=lambda node: node.rank)
        planned = sum(len(node.fields["spec"].get("gpus") or ()) for node in run.nodes)
        reasons = by_host[leading.entry.name].progress.get(run.run_id)
        values = reasons.values if reasons is not None else run.progress
        yield RunView(
            one_line(run.run_id, 100),
            run.status,
            tuple(node.entry.name for node in run.nodes),
            max(planned, seen.get(run.run_id, 0)),
            values.step,
            values.steps,
            values.loss,
            values.eta_s,
            None if reasons is None else now - reasons.grew_at,
        )
