"""Runs as the hosts tell of them, put together over their nodes. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

from launcher.inventory import HostEntry
from launcher.runs.progress import Progress, read_progress
from launcher.runs.record import Launched, read_record
from preflight.errors import BadInput
from preflight.records import dataclass

Condition: TypeAlias = Literal["running", "stopping", "finished", "failed", "stopped", "lost"]

LAST = "last"
_WORST: tuple[Condition, ...] = ("running", "stopping", "lost", "failed", "stopped", "finished")


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One node of a run as its host tells it."""

    entry: HostEntry  # how the host was reached just now
    told: Mapping[str, Any]  # what mode list says of it
    gpu_use: Mapping[str, Any]  # GPU UUID -> [percent busy, MiB used]
    clock_ahead_s: float  # the host's clock minus ours
    user: str

    @property
    def state(self) -> Mapping[str, Any]:
        """state.json, {} when it is gone."""
        return self.told.get("state") or {}

    @property
    def end(self) -> Mapping[str, Any]:
        """How it ended, {} while it has not."""
        return self.state.get("exit") or {}

    @property
    def rank_use(self) -> Mapping[str, Mapping[str, Any]]:
        """By rank, what its processes used a moment ago; {} when that was not measured."""
        usage = self.told.get("usage")
        ranks = usage.get("ranks") if isinstance(usage, Mapping) else None
        if not isinstance(ranks, Mapping):
            return {}
        return {str(rank): use for rank, use in ranks.items() if isinstance(use, Mapping)}

    @property
    def condition(self) -> Condition:
        """What has become of this node."""
        if self.state.get("phase") != "ended":
            if not self.told.get("alive"):
                return "lost"
            return "stopping" if self.state.get("phase") == "stopping" else "running"
        codes = (self.end.get("ranks") or {}).values()
        if any(code for code in codes if code not in (-15, -9)):
            return "failed"
        if self.end.get("why"):
            return "failed" if "failed with" in self.end["why"] or "killed" in self.end["why"] else "stopped"
        return "failed" if self.end.get("launcher_code") else "finished"


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run, with those of its nodes whose hosts have answered."""

    run_id: str
    launched: Launched | None  # None: started by a gpulaunch that left no record
    nodes: tuple[NodeRun, ...]

    @property
    def condition(self) -> Condition:
        """The whole run's: it runs while any node does; otherwise the worst that is known."""
        found = {node.condition for node in self.nodes}
        return next(condition for condition in _WORST if condition in found)

    @property
    def why(self) -> str:
        """Why it failed or was stopped: the first reason by time."""
        ends = sorted((node for node in self.nodes if node.end), key=lambda node: node.state.get("ended", 0))
        failed = [
            f"rank {rank} " + (f"signal {-code}" if code < 0 else f"exit {code}")
            for node in ends
            for rank, code in (node.end.get("ranks") or {}).items()
            if isinstance(code, int) and code not in (0, -15)
        ]
        whys = [str(node.end["why"]) for node in ends if node.end.get("why")]
        return (failed or whys or [""])[0]

    @property
    def started(self) -> float:
        """When it started, by our clock."""
        return min(float(node.state.get("started") or 0.0) - node.clock_ahead_s for node in self.nodes)

    @property
    def ended(self) -> float | None:
        """When its last node ended, None while one runs or that is not known."""
        times = [node.state.get("ended") for node in self.nodes]
        return None if None in times else max(float(time or 0.0) for time in times)

    @property
    def total_nodes(self) -> int:
        """How many nodes the launch has, found or not."""
        return max(int(node.told["spec"].get("nodes") or 1) for node in self.nodes)

    @property
    def progress(self) -> Progress:
        """Step and loss by the log of the lowest rank found."""
        first = min(self.nodes, key=lambda node: node.told["spec"].get("first_rank") or 0)
        return read_progress(str(first.told.get("tail") or ""))

    @property
    def unattended_s(self) -> float | None:
        """How long nobody has followed an attached run; None when it needs nobody, or has ended."""
        ages = [
            float(node.told["client_age_s"])
            for node in self.nodes
            if node.condition == "running" and not node.told.get("detached") and node.told.get("client_age_s")
        ]
        return max(ages, default=None)

    def entries(self, listed: Mapping[str, HostEntry]) -> tuple[HostEntry, ...]:
        """Return how to reach every node, in order: as it was just now, as listed, or as its launcher did."""
        here = {int(node.told["spec"].get("node_rank") or 0): node.entry for node in self.nodes}
        if self.launched is None:
            return tuple(here[rank] for rank in sorted(here))
        known = enumerate(self.launched.entries)
        return tuple(here.get(rank) or listed.get(entry.name, entry) for rank, entry in known)


def gather_runs(answers: Iterable[tuple[HostEntry, Mapping[str, Any], float]]) -> tuple[FoundRun, ...]:
    """Return the runs in (host, its answer, our time then), the newest last.

    A host reached under two names tells the same node twice; one of them is kept.
    """
    nodes: dict[str, dict[int, NodeRun]] = {}
    for entry, answer, now in answers:
        for told in answer.get("runs", ()):
            ahead = float(answer.get("t") or now) - now
            user = str(answer.get("user") or "")
            node = NodeRun(entry, told, answer.get("gpu_use") or {}, ahead, user)
            rank = int(told["spec"].get("node_rank") or 0)
            nodes.setdefault(str(told["run_id"]), {}).setdefault(rank, node)
    runs = [FoundRun(run_id, _launched(found.values()), _ordered(found)) for run_id, found in nodes.items()]
    return tuple(sorted(runs, key=lambda run: run.started))


def choose(runs: Iterable[FoundRun], word: str) -> FoundRun:
    """Return the run that a word means: `last`, a whole id, or the beginning of exactly one.

    Raises BadInput.
    """
    runs = tuple(runs)
    if not runs:
        what = "no run" if word == LAST else f'no run called "{word}"'
        raise BadInput(f"{what} was found on the hosts that answered", "gpulaunch ps --all HOST...")
    if word == LAST:
        return runs[-1]
    exact = [run for run in runs if run.run_id == word]
    begun = exact or [run for run in runs if run.run_id.startswith(word)]
    if len(begun) == 1:
        return begun[0]
    if not begun:
        raise BadInput(f'no run called "{word}" was found on the hosts that answered', "gpulaunch ps --all")
    names = ", ".join(run.run_id for run in begun[-5:])
    raise BadInput(f'"{word}" begins {len(begun)} runs: {names}', "give more of its name")


def _launched(nodes: Iterable[NodeRun]) -> Launched | None:
    for node in nodes:
        record = node.told["spec"].get("launch")
        if isinstance(record, dict):
            try:
                return read_record(record)
            except BadInput:
                continue
    return None


def _ordered(nodes: Mapping[int, NodeRun]) -> tuple[NodeRun, ...]:
    return tuple(nodes[rank] for rank in sorted(nodes))
