"""What hosts report of runs, put together: which of it is believed. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from launcher.config.inventory import HostEntry
from launcher.config.via_options import Via
from launcher.planning.run_record import RunRecord
from launcher.runs.remote_run import NodeRun, RemoteRun
from launcher.text import group_alike
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class MergedRuns:
    """Runs put together from what hosts have reported, and what of that is not believed."""

    runs: tuple[RemoteRun, ...]
    strays: Mapping[str, tuple[str, ...]]  # run id -> hosts that report it, though it is not theirs


def merge_node_runs(
    answers: Iterable[tuple[HostEntry, Mapping[str, Any], float]],
    known: Mapping[str, RunRecord] | None = None,
    *,
    names: Collection[str] = (),
) -> MergedRuns:
    """Return the runs in (host, its answer, our time then), the newest last.

    A host answers for itself only. Of a launch that this machine remembers (`known`), each node is believed
    from the host that was launched on. `names` are those of hosts that did not answer or were not asked: no
    other host reports in their place either. Of another launch, a node that two hosts claim is a conflict;
    one host reached under two names reports the same node twice, and one of them is kept.
    """
    answers = tuple(answers)
    requested = {*names, *(entry.name for entry, _, _ in answers)}
    nodes = group_alike(
        (str(node.fields["run_id"]), node) for answer in answers for node in _list_nodes(*answer)
    )
    memory = known or {}
    reports = [_RunReports(run_id, each, requested, memory.get(run_id)) for run_id, each in nodes.items()]
    runs = [run for each in reports if (run := each.build_run()) is not None]
    strays = {each.run_id: each.strays for each in reports if each.strays}
    return MergedRuns(tuple(sorted(runs, key=lambda run: run.started)), strays)


def _list_nodes(entry: HostEntry, answer: Mapping[str, Any], now: float) -> Iterator[NodeRun]:
    ahead, user = float(answer.get("t") or now) - now, str(answer.get("user") or "")
    for fields in answer.get("runs", ()):
        yield NodeRun(entry, fields, answer.get("gpu_use") or {}, ahead, user)


class _RunReports:
    """All that hosts report of one run."""

    def __init__(
        self, run_id: str, nodes: Iterable[NodeRun], requested: Collection[str], known: RunRecord | None
    ) -> None:
        self.run_id = run_id
        self._known = known
        self._requested = requested
        own: list[NodeRun] = []
        others: list[NodeRun] = []
        for node in nodes:
            (own if self._is_own(node) else others).append(node)
        # A host that is asked under two names as well is right under one of them.
        others = [node for node in others if not any(_is_same_keeper(node, each) for each in own)]
        self.strays = tuple(self._stray_words(node) for node in others)
        self._own = own

    def build_run(self) -> RemoteRun | None:
        """Return the run, None where no host reports it that could know."""
        kept: dict[int, NodeRun] = {}
        conflict = self._unlike_records()
        for node in self._own:
            before = kept.setdefault(node.rank, node)
            if before is node or _is_same_keeper(before, node):
                kept[node.rank] = node if self._is_named(node) else before
            else:
                who = f"{before.entry.name} and {node.entry.name}"
                conflict = conflict or f"{who} both say that they are node {node.rank} of it"
        if not kept:
            return None
        ordered = tuple(kept[rank] for rank in sorted(kept))
        launched = self._known or next((node.record for node in ordered if node.record), None)
        return RemoteRun(self.run_id, launched, ordered, self._known is not None, conflict)

    def _is_own(self, node: NodeRun) -> bool:
        """Return whether a host may report what it reports, by what this client knows."""
        record = self._known or node.record
        if record is None:
            return True
        if not 0 <= node.rank < len(record.entries):
            return False
        owner = record.entries[node.rank]
        if self._known is not None:
            return node.entry.name == owner.name or _place(node.entry) == _place(owner)
        # The client may know the host by another name than its own, unless that is the name of another host.
        return node.entry.is_local or owner.name not in self._requested or self._is_named(node)

    def _is_named(self, node: NodeRun) -> bool:
        record = self._known or node.record
        return record is None or record.entries[node.rank].name == node.entry.name

    def _stray_words(self, node: NodeRun) -> str:
        record = self._known or node.record
        entries = () if record is None else record.entries
        owner = entries[node.rank].name if 0 <= node.rank < len(entries) else ""
        by = "is, by its record," if self._known is None else "this machine launched"
        place = owner or "none of its hosts"
        words = f"{node.entry.name} reports node {node.rank} of it, which {by} on {place}: not believed"
        return f"{words}; where both are one host, call it {owner}" if owner else words

    def _unlike_records(self) -> str:
        """Return which hosts report different launches under this name, "" where none do."""
        if self._known is not None:
            return ""
        first: tuple[NodeRun, RunRecord] | None = None
        for node in self._own:
            record = node.record
            if record is None:
                continue
            if first is not None and not first[1].is_same_launch(record):
                who = f"{first[0].entry.name} and {node.entry.name}"
                return f"{who} report different launches under this name"
            first = first or (node, record)
        return ""


def _place(entry: HostEntry) -> tuple[str, bool, Via | None]:
    return (entry.address or entry.alias or entry.name).lower(), entry.is_local, entry.via


def _is_same_keeper(one: NodeRun, other: NodeRun) -> bool:
    """Return whether two answers are of one supervisor: the same process of the same boot."""
    names = ("boot_id", "supervisor", "pid_ns")
    mine, theirs = ([node.state.get(name) for name in names] for node in (one, other))
    return one.rank == other.rank and mine == theirs and bool(mine[0]) and bool(mine[1])
