"""Ending leftovers: look, choose, look again, end on the host, and prove afterwards what came free.

This module does not decide who is a leftover (preflight.leftovers.classify) or who may be ended
(preflight.leftovers.selection).
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, BadInput, ConnectionLost, HostError
from launcher.local.safe_paths import open_below
from launcher.remote import rpc
from launcher.remote.agent import AgentRequest, query_agent
from launcher.text import name_first
from launcher.transports.base import Connection
from preflight.facts.host import HostFacts, ProcessTable
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.leftovers.classify import ClassifiedProcess, ProcessClass, classify_processes
from preflight.leftovers.process_tree import get_environ
from preflight.leftovers.selection import CleanFilter, CleanSelection, advise_on_stranger, select_to_kill

# Beyond the grace periods: starting Python on the host and writing the answer.
_KILL_GRACE_S = 30.0
_REAP_SLACK_S = 20.0

_NO_GPUS = ("no-library", "no-devices")

# Facts that cleaning has no use for; the agent answers sooner without them.
TERM_GRACE_S = 10.0
SKIPPED_FACTS = ("paths", "script", "kernel_log", "infiniband", "system", "pci_gpus", "python", "cuda")


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """How to judge and how to end."""

    filter: CleanFilter = field(default_factory=CleanFilter)
    all_users: bool = False
    term_grace_s: float = TERM_GRACE_S  # from SIGTERM to SIGKILL


@dataclass(frozen=True, slots=True)
class KillResult:
    """What became of one chosen process."""

    pid: int
    start_ticks: int
    result: str  # "ended", "gone", "skipped: why", "survived: why", "denied: why"
    signals: tuple[str, ...]

    @property
    def is_gone(self) -> bool:
        """Whether it has gone."""
        return self.result in ("ended", "gone")


@dataclass(frozen=True, slots=True)
class GpuMemoryChange:
    """Memory of one GPU around the cleaning; None where it could not be read."""

    index: int
    before_mib: int | None
    after_mib: int | None


@dataclass(frozen=True, slots=True)
class CleanResult:
    """What a cleaning of one host did and what came free."""

    host: str
    killed: tuple[KillResult, ...]
    gpus: tuple[GpuMemoryChange, ...]
    ports_freed: tuple[int, ...]
    ports_still_held: tuple[int, ...]
    audit: str  # path of the audit log on the host, or why it could not be written
    lost: HostError | None = None  # the host has not answered afterwards: what came free is not known

    @property
    def complete(self) -> bool:
        """Whether all that was asked for is gone."""
        return all(each.is_gone for each in self.killed)


@dataclass(frozen=True, slots=True)
class HostLeftovers:
    """One host that answered: what it said, and what may be ended on it."""

    entry: HostEntry
    facts: HostFacts
    selection: CleanSelection

    @property
    def blocks_launch(self) -> bool:
        """Whether anything that may be ended holds a GPU or a port."""
        return any(each.held for each in self.list_approved(yes=True))

    def list_approved(self, *, yes: bool) -> tuple[ClassifiedProcess, ...]:
        """Return what is ended: what is certain, and the rest after a `yes`."""
        return (*self.selection.automatic, *(self.selection.needs_confirmation if yes else ()))


def find_leftovers(
    entry: HostEntry, facts: HostFacts, options: CleanOptions, earlier: ProcessTable | None = None
) -> HostLeftovers:
    """Choose among one host's processes, by what hosts.yaml says is normal on it."""
    stopped_s = entry.expect.stopped_s
    classified = classify_processes(facts, all_users=options.all_users, stopped_s=stopped_s, earlier=earlier)
    return HostLeftovers(entry, facts, select_to_kill(classified, options.filter))


def clean_host(
    connection: Connection,
    before: HostLeftovers,
    wanted: tuple[ClassifiedProcess, ...],
    options: CleanOptions,
    request: AgentRequest,
) -> CleanResult:
    """End the approved processes of one host and say what came free.

    It inspects the host once more first, by `request`, and ends nothing that is no longer chosen or is
    another process by now. Raises HostError when the host cannot be reached or does not answer before it.
    """
    look = partial(query_agent, connection, before.entry.python, request)
    # A single second look need not show again what a person has seen and approved.
    filters = replace(options.filter, pids=tuple(each.process.pid for each in wanted))
    again = find_leftovers(before.entry, look(), replace(options, filter=filters)).selection
    now = {_identity(each): each for each in (*again.automatic, *again.needs_confirmation)}
    victims = tuple(now[_identity(each)] for each in wanted if _still(each, now.get(_identity(each))))
    kept = {_identity(each) for each in victims}
    changed = tuple(
        KillResult(*_identity(each), "skipped: a second look no longer shows it as a leftover", ())
        for each in wanted
        if _identity(each) not in kept
    )
    try:
        reaped, audit = _reap(connection, before.entry.python, victims, options) if victims else ((), "")
    except HostError as error:  # what it was asked to do, it may do without us
        raise explain_doubt(ConnectionLost, connection.name, victims, error.detail) from None
    after, lost = before.facts, None
    try:
        after = look()
    except HostError as error:
        if not victims:
            raise
        lost, unread = error, Missing(error.detail)
        after = replace(after, processes=unread, gpus=unread, ports=unread)
    gone = _settled(changed, after)
    wanted_ports = tuple(sorted({port for each in wanted for port in each.held.ports}))
    held = _ports_held(wanted_ports, after)
    return CleanResult(
        host=connection.name,
        killed=(*reaped, *gone),
        gpus=_memory(before.facts, after),
        ports_freed=tuple(port for port in wanted_ports if port not in held),
        ports_still_held=held,
        audit=audit,
        lost=lost,
    )


def explain_doubt(
    kind: type[HostError], host: str, of: Iterable[ClassifiedProcess], why: str = ""
) -> HostError:
    """Return that a host which has not answered may have ended these, and what shows it."""
    pids = name_first([f"pid {each.process.pid}" for each in of], 5)
    why = why or "interrupted before it answered"
    shows = f"gpulaunch clean-zombies {host} --dry-run shows what is left"
    return kind(host, f"{why}: it may have ended {pids}, or do so yet", shows)


def write_audit(cleaned: CleanResult, chosen: Iterable[ClassifiedProcess], state_dir: Path) -> Path:
    """Append what was done to the local audit log; return its path. Raises OSError, PathRefused."""
    # Named as on the host (onhost/kill_leftovers.py): hosts and this machine may share a home.
    path = state_dir / f"audit-{re.sub('[^A-Za-z0-9.-]', '_', os.uname().nodename)[:64]}.jsonl"
    evidence = {_identity(each): each for each in chosen}
    fd = open_below(state_dir, path.name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with os.fdopen(fd, "a", encoding="utf-8") as file:
        for record in cleaned.killed:
            each = evidence.get((record.pid, record.start_ticks))
            line = {
                "host": cleaned.host,
                **asdict(record),
                "class": each.kind.value if each else "",
                "evidence": each.evidence if each else (),
            }
            file.write(json.dumps(line) + "\n")
    return path


def refuse_unknown(facts: HostFacts, filters: CleanFilter) -> None:
    """Raise BadInput for a GPU or a process that does not exist: it would look as if it had been free."""
    present = {gpu.index for gpu in facts.known_gpus}
    for index in sorted(set(filters.gpus) - present):
        if isinstance(facts.gpus, Missing) and facts.gpus.code not in _NO_GPUS:
            raise BadInput(f"the GPUs of {facts.host} could not be read: {facts.gpus.reason}", "try again")
        have = f"it has GPU {', '.join(map(str, sorted(present)))}" if present else "it has none"
        raise BadInput(f"{facts.host} has no GPU {index}: {have}", "name one of these, or leave out --gpu")
    if isinstance(facts.processes, Missing) or isinstance(facts.identity, Missing):
        return  # see `list_unreadable`
    seen = {process.pid: process for process in facts.processes.processes}
    known = {each.process.pid for each in classify_processes(facts)}
    for pid in filters.pids:
        if pid not in seen:
            listed = f"gpulaunch clean-zombies {facts.host} --dry-run   (shows what is running)"
            raise BadInput(f"{facts.host} has no process {pid}", listed)
        if pid not in known:
            stranger = next(
                each for each in classify_processes(facts, named=(pid,)) if each.process.pid == pid
            )
            hidden = isinstance(seen[pid].gpu_files, Missing)
            holds = "what it holds cannot be seen" if hidden else "holds no GPU and none of the job's ports"
            raise BadInput(
                f"pid {pid} ({seen[pid].comm}) on {facts.host} is neither rank nor launcher, and {holds}:"
                " gpulaunch does not end it",
                advise_on_stranger(stranger, facts.host),
            )


def list_unreadable(facts: HostFacts) -> tuple[str, ...]:
    """Say what should have been judged on this host and was not: with it, nothing is known to be fine."""
    if isinstance(facts.processes, Missing):
        return (f"the processes could not be read: {facts.processes.reason}",)
    if isinstance(facts.identity, Missing):
        return (f"leftovers cannot be distinguished from live processes: {facts.identity.reason}",)
    return tuple(
        f"pid {each.pid}" + (f" ({each.user})" if each.user else "") + f" could not be judged: {each.reason}"
        for each in facts.processes.unread
    )


def list_unseen(facts: HostFacts) -> tuple[str, ...]:
    """Say what could not be seen on this host: whom a leftover could hide behind."""
    if isinstance(facts.processes, Missing):
        return list_unreadable(facts)
    limits = [*list_unreadable(facts)]
    hidden = sorted({each.user for each in facts.processes.processes if isinstance(each.gpu_files, Missing)})
    if hidden:
        limits.append(f"open files of processes of {', '.join(hidden)} cannot be read without root")
    if not isinstance(facts.identity, Missing) and not facts.identity.initial_pid_namespace:
        limits.append("this is a container: processes outside it cannot be seen and are never signalled")
    if isinstance(facts.gpus, Missing) and facts.gpus.code not in _NO_GPUS:
        limits.append(f"the GPUs could not be read: {facts.gpus.reason}")
    return tuple(limits)


def _still(approved: ClassifiedProcess, now: ClassifiedProcess | None) -> bool:
    """Whether the second look bears out the first; a suspect, or who was named by pid, may be either."""
    if now is None:
        return False
    unproven = (ProcessClass.SUSPECT, ProcessClass.LIVE)
    return now.kind is approved.kind or (now.kind in unproven and approved.kind in unproven)


def _identity(each: ClassifiedProcess) -> tuple[int, int]:
    return each.process.pid, each.process.start_ticks


def _reap(
    connection: Connection, python: str, victims: tuple[ClassifiedProcess, ...], options: CleanOptions
) -> tuple[tuple[KillResult, ...], str]:
    request = {
        "victims": [
            {
                "pid": each.process.pid,
                "start_ticks": each.process.start_ticks,
                "ppid": each.process.ppid,
                "uid": each.process.uid,
                "class": each.kind.value,
                "evidence": list(each.evidence),
                "mark": get_environ(each.process).get("GPULAUNCH_SUPERVISOR", "")
                if each.kind is ProcessClass.DEAD_RUN
                else "",
            }
            for each in victims
        ],
        "term_grace_s": options.term_grace_s,
        "kill_grace_s": _KILL_GRACE_S,
        "note": "gpulaunch clean-zombies",
    }
    patience_s = options.term_grace_s + _KILL_GRACE_S + _REAP_SLACK_S
    answer = rpc.run_program(
        connection,
        python,
        "kill_leftovers",
        request,
        name="the program that ends leftovers",
        timeout_s=patience_s,
    )
    return parse_kill_results(answer, connection.name)


def parse_kill_results(answer: Mapping[str, Any], host: str) -> tuple[tuple[KillResult, ...], str]:
    """Return what kill_leftovers.py has answered, and its audit log. Raises AgentProtocolError."""
    try:
        records = tuple(
            KillResult(int(r["pid"]), int(r["start_ticks"]), str(r["result"]), tuple(map(str, r["signals"])))
            for r in answer["records"]
        )
        return records, str(answer["audit"])
    except (ValueError, KeyError, TypeError) as error:
        raise AgentProtocolError(
            host,
            "the answer about ended processes cannot be read",
            f"gpulaunch clean-zombies {host} --dry-run",
        ) from error


def _settled(changed: tuple[KillResult, ...], after: HostFacts) -> tuple[KillResult, ...]:
    """What vanished between two inspections is gone, not left alone."""
    if isinstance(after.processes, Missing):
        return changed
    there = {(each.pid, each.start_ticks) for each in after.processes.processes}
    return tuple(
        each if (each.pid, each.start_ticks) in there else replace(each, result="gone") for each in changed
    )


def _memory(before: HostFacts, after: HostFacts) -> tuple[GpuMemoryChange, ...]:
    then, now = _used(before), _used(after)
    return tuple(GpuMemoryChange(index, then.get(index), now.get(index)) for index in sorted(then | now))


def _used(facts: HostFacts) -> dict[int, int | None]:
    return {gpu.index: gpu.used_mib for gpu in facts.known_gpus}


def _ports_held(wanted_ports: tuple[int, ...], after: HostFacts) -> tuple[int, ...]:
    """Return which ports a bind test does not show as free."""
    if isinstance(after.ports, Missing):
        return wanted_ports
    free = {test.port for test in after.ports.binds if test.ok}
    return tuple(port for port in wanted_ports if port not in free)
