"""Hosts that no longer answer, and launches from this machine that are over, as noted in their records: later
commands do not wait for them.
"""

import shlex
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.config.inventory import LOCALHOST
from launcher.config.node_sets import fold_hosts, format_host_range
from launcher.errors import (
    ConnectionRefused,
    ConnectionTimedOut,
    ContainerNotRunning,
    HostError,
    HostKeyChanged,
    NameNotResolved,
)
from launcher.planning.run_record import RunRecord, note_in_record, read_run_records
from launcher.rundir.end_state import LIVING
from launcher.rundir.layout import read_kept_outcome
from launcher.runs.remote_run import LAUNCH_S, RemoteRun

if TYPE_CHECKING:
    from launcher.follow.outcome import Outcome

_SILENT = (NameNotResolved, ConnectionRefused, ConnectionTimedOut, HostKeyChanged, ContainerNotRunning)
"""Nothing answers under the host's name, or another machine does."""


def list_gone_hosts(records: Iterable[RunRecord], listed: Collection[str]) -> tuple[str, ...]:
    """Return hosts that did not answer when last asked, and on which all that was launched is over.

    Hosts of hosts.yaml (`listed`) are not among them: the user says that they exist.
    """
    gone: dict[str, bool] = {}
    for record in sorted(records, key=lambda each: each.at, reverse=True):
        for entry in record.entries:
            is_gone = record.over and entry.name in record.silent
            gone[entry.name] = gone.get(entry.name, True) and is_gone
    return tuple(name for name, is_gone in gone.items() if is_gone and name not in (LOCALHOST, *listed))


def describe_gone(names: Sequence[str]) -> str:
    """Return that hosts are not asked, why, and how they are."""
    what = "what was launched on them from this machine is over, and they did not answer the last time"
    return f"{fold_hosts(names)}: not asked: {what}; gpulaunch ps --all asks. {_forget(names)}"


def describe_silent(names: Sequence[str]) -> str:
    """Return how hosts are no longer asked that are known by their launches alone."""
    return f"{fold_hosts(names)}: asked because of what was launched from this machine. {_forget(names)}"


def _forget(names: Sequence[str]) -> str:
    return f"Gone for good? gpulaunch prune {shlex.quote(format_host_range(names))} --forget"


def list_silent(
    records: Iterable[RunRecord], listed: Collection[str], errors: Mapping[str, HostError]
) -> tuple[str, ...]:
    """Return hosts that did not answer and are asked only because of a launch from this machine."""
    launched = {entry.name for record in records for entry in record.entries}
    known = launched - {LOCALHOST, *listed}
    return tuple(name for name, error in errors.items() if name in known and isinstance(error, _SILENT))


def list_unseen(
    records: Mapping[str, RunRecord], seen: Collection[str], errors: Mapping[str, HostError]
) -> list[str]:
    """Return launches that may live on hosts that did not answer, and that no other host has reported."""
    unknown = (run_id for run_id, record in records.items() if not record.over and run_id not in seen)
    return sorted(each for each in unknown if any(node.name in errors for node in records[each].entries))


def note_answers(
    records: Mapping[str, RunRecord],
    runs: Iterable[RemoteRun],
    *,
    answered: Collection[str],
    errors: Mapping[str, HostError],
    complete: bool,
) -> None:
    """Note launches that are over and hosts that are silent; `complete`: every living run was asked for."""
    by_id = {run.run_id: run for run in runs}
    silent = {name for name, error in errors.items() if isinstance(error, _SILENT)}
    others = [run for run in by_id.values() if run.is_live and run.run_id not in records]
    busy = {node.entry.name for run in others for node in run.nodes}  # perhaps with a later start of a launch
    for run_id, record in records.items():
        names = {entry.name for entry in record.entries}
        over: bool | None = None
        if run_id in by_id:
            over = _is_over(by_id[run_id], by_id)
        elif complete and names <= set(answered) - busy and time.time() - record.at > LAUNCH_S:
            over = True
        over = record.over if over is None else over
        kept = names & silent | set(record.silent) - set(answered) if over else set[str]()
        if (over, kept) != (record.over, set(record.silent)):
            note_in_record(run_id, over=over, silent=sorted(kept))


def _is_over(run: RemoteRun, by_id: Mapping[str, RemoteRun]) -> bool | None:
    """Return whether a run has ended and no start follows it, None where that is not known.

    Hosts that were not asked may have said so before. A lost run may have left processes: it is not over
    before someone has removed it.
    """
    passed = set[str]()
    while run.next_start:
        passed.add(run.run_id)
        following = by_id.get(run.next_start)
        if following is None or following.run_id in passed:
            return None
        run = following
    if not run.is_over and run.status not in LIVING:
        return None
    return not run.is_live and run.status != "lost" and not run.conflict


def _has_ended_everywhere(start: Path) -> bool:
    """Return whether the kept outcome of a start says that no host was lost and no process is left."""
    kept = read_kept_outcome(start)
    return kept.get("lost_hosts") == {} and not kept.get("remaining_pids")


def note_end(outcome: "Outcome") -> None:
    """Note that a run is over that this client has followed to its end, unless a host may restart it.

    A start that was given up with a host may live on it, though a later one has finished.
    """
    may_restart = outcome.restarts is not None and outcome.verdict != "finished"
    if outcome.verdict == "detached" or may_restart or not outcome.cleanup.is_clean:
        return
    restarts = outcome.restarts.starts if outcome.restarts is not None else ()
    starts = [start.run_id for start in restarts if _has_ended_everywhere(Path(start.logs))]
    records = read_run_records()
    for run_id in {*starts, outcome.plan.run_id} & records.keys():
        note_in_record(run_id, over=True)
