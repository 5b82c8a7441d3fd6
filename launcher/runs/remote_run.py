"""A run as its hosts report it. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import field, replace
from typing import Any

from launcher.config.disconnect_options import DEFAULT_GRACE_S, MAX_GRACE_S
from launcher.config.inventory import HostEntry
from launcher.errors import HostError
from launcher.planning.run_record import RunRecord, read_record
from launcher.rundir.end_state import WORST, RunStatus, classify_end, describe_end, explain_end, explain_loss
from launcher.rundir.run_id import is_run_id, parse_earliest_start
from launcher.terminal.step_progress import ProgressValues, read_tail
from preflight.errors import BadInput
from preflight.frozen import dataclass

LAUNCH_S = 600.0  # a launch of which a host shows nothing may still be on its way to it
_UNKNOWN = "unknown"
_CLOCK_SLACK_S = 300.0  # by how much the clocks of two machines may differ where both are set
_CLOCK_STEP_S = 3600.0  # a launch takes less: a host that says otherwise has set its clock since


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One node of a run as its host reports it."""

    entry: HostEntry  # how the host was reached just now
    fields: Mapping[str, Any]  # what mode list says of it
    gpu_use: Mapping[str, Any]  # GPU UUID -> [percent busy, MiB used]
    clock_offset_s: float  # the host's clock minus ours
    user: str

    @property
    def state(self) -> Mapping[str, Any]:
        """state.json, {} when it is gone."""
        return self.fields.get("state") or {}

    @property
    def end(self) -> Mapping[str, Any]:
        """How it ended, {} while it has not."""
        return self.state.get("exit") or {}

    @property
    def rank(self) -> int:
        """Which node of its run it is."""
        return int(self.fields["spec"].get("node_rank") or 0)

    @property
    def record(self) -> RunRecord | None:
        """The launch by the record that the host keeps."""
        record = self.fields["spec"].get("launch")
        if record is None:
            return None
        try:
            launched = read_record(record)
        except BadInput:
            return None
        return launched if launched.plan.run_id == self.fields["run_id"] else None

    @property
    def rank_usage(self) -> Mapping[str, Mapping[str, Any]]:
        """By rank, what its processes used a moment ago; {} when that was not measured."""
        usage = self.fields.get("usage")
        ranks = usage.get("ranks") if isinstance(usage, Mapping) else None
        if not isinstance(ranks, Mapping):
            return {}
        return {str(rank): use for rank, use in ranks.items() if isinstance(use, Mapping)}

    @property
    def status(self) -> RunStatus:
        """What has become of this node."""
        if self.state.get("phase") == "ended":
            return "waiting" if self.fields.get("kept") else classify_end(self.end)
        if not self.fields.get("alive"):
            return "lost"
        return "stopping" if self.state.get("phase") == "stopping" else "running"

    @property
    def why(self) -> str:
        """Why it ended, by the word of its supervisor, or else by its exit codes; "" when it ended well."""
        if self.state.get("phase") == "ended":
            return explain_end(self.end)
        return "" if self.fields.get("alive") else explain_loss(self.state)

    @property
    def next_start(self) -> str:
        """The run id of the start that followed this one, "" for none."""
        following = self.fields.get("next") or {}
        other = str(following.get("run_id") or "")
        return other if following.get("state") == "restarted" and is_run_id(other) else ""

    @property
    def next_words(self) -> str:
        """What follows a start that has failed, in words; "" where nothing does."""
        following = self.fields.get("next") or {}
        state = following.get("state")
        if self.next_start:
            return f"started again as {self.next_start}"
        if not self.fields.get("kept"):
            return ""
        if state == "waits":
            return f"waits for a client (gpulaunch attach): {following.get('why')}"
        if state == "restarting":
            by = str(following.get("by") or "")
            return f"is being restarted by {'its host' if by == 'host' else by}"
        return "its client, or else its host, decides on a restart"

    @property
    def end_began(self) -> float:
        """When its end began, by our clock."""
        at = self.end.get("since") or self.state.get("ended") or 0.0
        return float(at) - self.clock_offset_s


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run, with those of its nodes whose hosts have answered."""

    run_id: str
    record: RunRecord | None  # None: started by a gpulaunch that left no record
    nodes: tuple[NodeRun, ...]
    from_here: bool = False  # this machine has launched it, and `record` is its own
    conflict: str = ""  # why it is not known which of the hosts that report it are right
    # Hosts that could not be reached in the search for it, with the reason; theirs or not.
    silent: Mapping[str, HostError] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()  # its hosts that answered, and have nothing of it

    @property
    def status(self) -> RunStatus:
        """The whole run's: it runs while any node does; otherwise the worst that is known."""
        found = {node.status for node in self.nodes}
        return next(condition for condition in WORST if condition in found)

    @property
    def why(self) -> str:
        """Why it failed, was stopped or lost: the first reason by time of a node that did.

        Of a run that lives: why it has ended on some of its nodes, "" where it lives on all.
        """
        condition = self.status
        lives = condition in ("running", "stopping")
        ends = sorted(self.nodes, key=lambda node: node.end_began)
        return next((node.why for node in ends if (lives or node.status == condition) and node.why), "")

    @property
    def how(self) -> str:
        """What has become of it, in words: `stopped by ada@laptop`, `failed: rank 0 ...`."""
        return describe_end(self.status, self.why)

    def with_states(self, states: Mapping[int, Mapping[str, Any]]) -> "RemoteRun":
        """Return it as nodes (by their rank) have reported their state since."""
        nodes = tuple(
            replace(node, fields={**node.fields, "state": states.get(node.rank) or node.state})
            for node in self.nodes
        )
        return replace(self, nodes=nodes)

    @property
    def next_words(self) -> str:
        """What follows a start that has failed, by the word of the node that keeps it; "" for nothing."""
        return next((words for node in self.nodes if (words := node.next_words)), "")

    @property
    def next_start(self) -> str:
        """The run id of the start that followed this one, by the word of a node; "" for none."""
        return next((run_id for node in self.nodes if (run_id := node.next_start)), "")

    @property
    def earlier_start(self) -> str:
        """The run id of the start that this one follows, "" for none."""
        known = self.spec.get("restart")
        return str(known.get("after") or "") if isinstance(known, Mapping) else ""

    def with_answers(self, answered: Collection[str], now: float) -> "RemoteRun":
        """Return it with those of its hosts that have answered and have nothing of it."""
        if self.record is None or now - self.record.at < LAUNCH_S:
            return self
        return replace(self, removed=frozenset(answered).intersection(self.missing))

    @property
    def is_over(self) -> bool:
        """Whether all of its nodes have reported that nothing of it lives any more, or have nothing of it."""
        known = len(self.nodes) + len(self.removed)
        return known >= self.total_nodes and self.status not in ("running", "stopping")

    @property
    def is_live(self) -> bool:
        """Whether something of it may still run, or run again."""
        return not self.is_over or self.status == "waiting"

    @property
    def missing(self) -> list[str]:
        """The hosts of nodes that were not found, "unknown" for those of a launch without a record."""
        if self.record is None:
            return [_UNKNOWN] if self.total_nodes > len(self.nodes) else []
        found = {node.rank for node in self.nodes}
        return [node.host for node in self.record.plan.nodes if node.node_rank not in found]

    @property
    def unheard(self) -> dict[str, HostError]:
        """Why hosts of missing nodes could not be reached; it may live on them."""
        missing = self.silent if self.missing == [_UNKNOWN] else self.missing
        return {name: error for name, error in self.silent.items() if name in missing}

    @property
    def started(self) -> float:
        """When it started, by our clock; when it was launched, where hosts have set theirs since."""
        times = [float(node.state.get("started") or 0.0) - node.clock_offset_s for node in self.nodes]
        launched = self.record.at if self.record is not None else min(times)
        nearest = min(times, key=lambda at: abs(at - launched))
        return nearest if abs(nearest - launched) < _CLOCK_STEP_S else launched

    @property
    def ended(self) -> float | None:
        """When its last node ended, None while one runs or that is not known."""
        times = [node.state.get("ended") for node in self.nodes]
        if None in times:
            return None
        return max(float(node.state.get("ended") or 0.0) - node.clock_offset_s for node in self.nodes)

    def explain_wrong_end(self, now: float) -> str:
        """Return why a node's clock was wrong at its end, "" where all of them can have been right.

        A host without a battery-backed clock starts in 1970, or where it was when it lost its power.
        """
        launched = self.record.at if self.record is not None else parse_earliest_start(self.run_id)
        for node in self.nodes:
            if (ended := node.state.get("ended")) is None:
                continue
            at = float(ended) - node.clock_offset_s
            if float(ended) < float(node.state.get("started") or 0.0) - _CLOCK_SLACK_S:
                why = "before it started"
            elif at < launched - _CLOCK_SLACK_S:
                why = "before it was launched"
            elif at > now + _CLOCK_SLACK_S:
                why = "in the future"
            else:
                continue
            return f"by the clock of {node.entry.name} it ended {why}"
        return ""

    @property
    def total_nodes(self) -> int:
        """How many nodes the launch has, found or not."""
        return max(int(node.fields["spec"].get("nodes") or 1) for node in self.nodes)

    @property
    def spec(self) -> Mapping[str, Any]:
        """What the first of its nodes keeps of the launch."""
        spec: Mapping[str, Any] = self.nodes[0].fields["spec"]
        return spec

    @property
    def job(self) -> str:
        """What the launch was called."""
        return str(self.spec.get("job") or "")

    @property
    def slurm_job(self) -> str:
        """The Slurm job that it is a step of, "" for none."""
        return str(self.spec.get("slurm_job") or "")

    @property
    def grace_s(self) -> float:
        """From SIGTERM to SIGKILL, as it was launched: `grace` of its config, or --grace."""
        said = [node.fields["spec"].get("grace_s") for node in self.nodes]
        known = [float(grace) for grace in said if isinstance(grace, int | float)]
        return min(max(0.0, *known), MAX_GRACE_S) if known else DEFAULT_GRACE_S

    @property
    def progress(self) -> ProgressValues:
        """Step and loss by the log of the lowest rank found."""
        first = min(self.nodes, key=lambda node: node.fields["spec"].get("first_rank") or 0)
        return read_tail(str(first.fields.get("tail") or "").encode("utf-8", "replace"))

    @property
    def unattended_s(self) -> float | None:
        """How long no client has followed an attached run; None when it needs none, or has ended."""
        ages = [
            float(node.fields["client_age_s"])
            for node in self.nodes
            if node.status == "running"
            and not node.fields.get("detached")
            and node.fields.get("client_age_s")
        ]
        return max(ages, default=None)
