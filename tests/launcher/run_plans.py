"""Plans as literals for the tests of a run."""

from pathlib import Path

from launcher.planning.plan import NodePlan, Plan
from preflight.decide.decision import Decision, NodeRanks, RankSlot
from preflight.job import Precision

RUN_ID = "r1-20261122-104500-0a1b2c"


def run_id(word: str) -> str:
    """Return a run's name that begins with a word."""
    return f"{word}-20261122-104500-0a1b2c"


def node(host: str, node_rank: int, first_rank: int, gpus: tuple[str | None, ...]) -> NodePlan:
    """Return a node whose ranks have these GPUs by UUID; None is the CPU."""
    slots = tuple(RankSlot(n, uuid, None if uuid is None else n) for n, uuid in enumerate(gpus))
    return NodePlan(
        host=host,
        node_rank=node_rank,
        ranks=NodeRanks(slots, single_gpu_visible=False, reasons=()),
        first_rank=first_rank,
        python="python3",
        argv=("python3",),
        env={},
        unset=(),
        cwd="",
        files=(),
        gpus=tuple(uuid for uuid in gpus if uuid is not None),
    )


def plan(*gpus: tuple[str | None, ...], precision: Precision = "no") -> Plan:
    """Return a plan for hosts a, b, ... with these ranks each."""
    nodes, first = [], 0
    for number, mine in enumerate(gpus):
        nodes.append(node("abcdef"[number], number, first, mine))
        first += len(mine)
    return Plan(RUN_ID, "job", tuple(nodes), first, "10.0.0.1", 29500, Decision(precision, ()), (), (), ())


NOWHERE = Path("nowhere")
