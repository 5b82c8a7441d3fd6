"""The logs of a run, looked at: nothing is kept locally, and looking keeps no attached run alive."""

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from launcher.config.node_sets import fold_hosts
from launcher.durations import parse_duration
from launcher.follow.client_deadlines import leave_hosts
from launcher.follow.events import Disconnected, HostEnded, HostLost, LogOutput, Reconnected, RunEvent
from launcher.follow.log_offsets import ResumePoint
from launcher.follow.node_client import QUEUE_LENGTH, NodeClient
from launcher.follow.node_status import NodeStatus
from launcher.launch.signals import capture_signals
from launcher.planning.plan import NodePlan, Plan
from launcher.runs.access import RunAccess
from preflight import regex as re
from preflight.errors import BadInput
from preflight.frozen import dataclass

Sink = Callable[[str, str, bytes, float], None]  # takes (host, log, bytes, now)

PATIENCE_S = 60.0
_KEPT_LINES = 20_000  # some megabytes
_POLL_S = 0.1
_BYTES = re.compile(r"(\d{1,15})(B|kB|KB|MB|GB)")
_SIZES = {"B": 1, "kB": 1000, "KB": 1000, "MB": 1000**2, "GB": 1000**3}


@dataclass(frozen=True, slots=True)
class LogsResult:
    """The hosts that were lost, why, and what to do; and how each node stood at the end, by its rank."""

    lost: Mapping[str, str]
    fixes: Mapping[str, str]
    states: Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which logs are looked at, and from where on."""

    rank: int | None = None
    host: str = ""
    since: Mapping[str, float] | None = None
    follow: bool = False

    def nodes(self, plan: Plan) -> tuple[NodePlan, ...]:
        """Return the nodes that have them. Raises BadInput when there is no such rank or host."""
        found = tuple(
            node
            for node in plan.nodes
            if self.host in ("", node.host) and (self.rank is None or self._in(node))
        )
        if found:
            return found
        ranks = f"ranks 0 to {plan.world_size - 1}" if plan.world_size > 1 else "rank 0"
        hosts = fold_hosts(node.host for node in plan.nodes)
        raise BadInput(
            f"{plan.run_id} has no such log: it has {ranks}, on {hosts}", "leave out --rank or --host"
        )

    def list_logs(self, node: NodePlan) -> list[str]:
        """Return the logs wanted of a node."""
        if self.rank is not None:
            return [f"rank-{self.rank}.log"]
        ranks = range(node.first_rank, node.first_rank + len(node.ranks.slots))
        return ["launcher.log", *(f"rank-{rank}.log" for rank in ranks)]

    def is_short(self, plan: Plan) -> bool:
        """Return whether so few last lines are wanted that they can be kept until all have arrived."""
        lines = (self.since or {}).get("lines")
        return not self.follow and lines is not None and lines * plan.world_size <= _KEPT_LINES

    def _in(self, node: NodePlan) -> bool:
        assert self.rank is not None  # noqa: S101 - the caller has asked
        return 0 <= self.rank - node.first_rank < len(node.ranks.slots)


def parse_since(word: str) -> dict[str, float]:
    """Return what --since means: `10m`, `2h`, or the last so many bytes of each log. Raises BadInput."""
    ago_s = parse_duration(word)
    if ago_s is not None:
        return {"seconds": ago_s}
    size = _BYTES.fullmatch(word)
    if size is not None:
        return {"bytes": float(int(size[1]) * _SIZES[size[2]])}
    raise BadInput(
        f'--since "{word}" is neither a time ago nor a number of bytes', "--since 10m, or --since 64kB"
    )


class _KeptLines:
    """The output of short logs, kept until all has arrived, to be shown in an order."""

    def __init__(self, order: Sequence[tuple[str, str]]) -> None:
        self._logs = {log: bytearray() for log in order}

    def add(self, host: str, log: str, data: bytes, _now: float) -> None:
        """Keep what has come of a log."""
        self._logs.setdefault((host, log), bytearray()).extend(data)

    def give_to(self, show: Sink) -> None:
        """Give the sink each log that anything has come of."""
        for (host, log), data in self._logs.items():
            if data:
                show(host, log, bytes(data), time.monotonic())


def show_logs(
    to: RunAccess, selection: LogSelection, show: Sink, notify: Callable[[str], None] = lambda _: None
) -> LogsResult:
    """Show the logs, to the end of the run with `follow`, until Ctrl-C; return how the hosts stood.

    `notify` takes what is said of a link that breaks meanwhile.

    A few last lines of each log are shown in the order of the ranks, other logs as they arrive.
    """
    events: queue.Queue[RunEvent] = queue.Queue(QUEUE_LENGTH)
    by_host = {node.host: entry for node, entry in zip(to.plan.nodes, to.entries, strict=True)}
    nodes = selection.nodes(to.plan)
    open_hosts = {node.host: node for node in nodes}
    kept = _KeptLines([(node.host, log) for node in nodes for log in selection.list_logs(node)])
    sink = kept.add if selection.is_short(to.plan) else show
    followers = []
    for node in open_hosts.values():
        options: dict[str, object] = {
            "viewer": True,
            "only": selection.list_logs(node),
            "once": not selection.follow,
        }
        if selection.since is not None:
            options["since"] = dict(selection.since)
        follower = NodeClient(
            to.plan.run_id,
            node,
            partial(to.open, by_host[node.host]),
            ResumePoint(options=options),
            patience_s=PATIENCE_S,
            events=events,
        )
        follower.start()
        followers.append(follower)
    lost: dict[str, str] = {}
    fixes: dict[str, str] = {}
    states: dict[int, Mapping[str, Any]] = {}
    links = {host: NodeStatus() for host in open_hosts}
    with capture_signals() as interrupts:
        while open_hosts and not interrupts.pop():
            match _next(events):
                case LogOutput(host=host, log=log, data=data):
                    sink(host, log, data, time.monotonic())
                case HostEnded(host=host, state=state):
                    states[open_hosts.pop(host).node_rank] = state
                case HostLost(host=host, why=why):
                    lost[host] = why.removeprefix(f"{host}: ")
                    del open_hosts[host]
                case Disconnected(host=host, why=why) as gone if host not in lost and not selection.follow:
                    lost[host], fixes[host] = why, gone.fix
                    del open_hosts[host]
                case (Disconnected() | Reconnected()) as event if links[event.host].note_link(event):
                    notify(event.message)
                case _:
                    pass
    kept.give_to(show)
    leave_hosts(followers)
    return LogsResult(lost, fixes, states)


def _next(events: "queue.Queue[RunEvent]") -> RunEvent | None:
    try:
        return events.get(timeout=_POLL_S)
    except queue.Empty:
        return None
