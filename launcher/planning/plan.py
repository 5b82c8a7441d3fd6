"""The plan: everything a launch will do, decided before anything starts, as the one value that runs."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.engines.base import opens_port
from preflight.checks.finding import Finding
from preflight.decide.decision import Decision, DecisionReason, NodeRanks, RankSlot
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """A value that was corrected, shown as `what old -> new: why`; "" where one was added or dropped."""

    field: str
    old: str
    new: str
    why: str


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What runs on one host: final, but for `{run_dir}` in `argv`, `env` and `cwd`, which is filled in
    on the host.
    """

    host: str
    node_rank: int
    ranks: NodeRanks
    first_rank: int  # global rank of local rank 0; ranks are contiguous per node
    python: str
    argv: tuple[str, ...]
    env: dict[str, str]  # added to the host's own environment
    unset: tuple[str, ...]  # names and PREFIX* patterns removed from it first
    cwd: str  # "" = the user's home on the host
    files: tuple[tuple[str, str], ...]  # (name below the run directory, text): script/x.py
    output_dir: str = ""  # where the script writes on the host; "" = the config does not say
    gpus: tuple[str, ...] = ()  # every GPU that it uses, by UUID
    notes: tuple[str, ...] = ()  # of the engine, on what its command and files do not explain themselves


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole launch."""

    run_id: str
    job_name: str
    nodes: tuple[NodePlan, ...]
    world_size: int
    main_address: str
    main_port: int
    precision: Decision
    changes: tuple[Change, ...]
    reasons: tuple[DecisionReason, ...]
    findings: tuple[Finding, ...]  # what preflight said, warnings included
    engine: str = "accelerate"  # which engine of launcher/engines/ starts the ranks
    # Without a sign of life for so long, it is ended; None: it is reported.
    hang_timeout_s: float | None = None

    @property
    def slots(self) -> Iterator[tuple[int, NodePlan, RankSlot]]:
        """Every rank of the launch, with its node and its place on the host."""
        for node in self.nodes:
            yield from ((node.first_rank + slot.local_rank, node, slot) for slot in node.ranks.slots)

    @property
    def opens_port(self) -> bool:
        """Whether the ranks meet on the main port; a world of one rank mostly does not."""
        return opens_port(self.engine, self.world_size)


@dataclass(frozen=True, slots=True)
class ScriptFile:
    """A local script that travels with the launch."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class RestartSpec:
    """`known` is in spec.json on every host; `order` has values of the environment: in memory, on one."""

    known: Mapping[str, Any]
    order: str
