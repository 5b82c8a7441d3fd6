"""What a launch leaves on each of its hosts about all of them, so that any machine can find it whole."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.identity import user_at_machine
from launcher.inventory import HostEntry
from launcher.plan import NodePlan, Plan
from preflight.decision import Decision, NodeRanks, RankSlot
from preflight.errors import BadInput
from preflight.records import dataclass

SCHEMA = "gpulaunch.launch/1"


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch as its record tells it."""

    plan: Plan  # argv, environment (but for the guard's mode) and files are not told again
    entries: tuple[HostEntry, ...]  # how whoever launched it reached each node, in the order of the nodes
    by: str  # user@machine
    at: float  # when, by that machine's clock
    says_output: bool = True  # whether it was said where the script writes


def launch_record(plan: Plan, node: NodePlan, entries: Iterable[HostEntry]) -> dict[str, Any]:
    """Return the record that goes to one node. No argument and no variable of the script's is in it."""
    ways = {entry.name: entry for entry in entries}
    return {
        "schema": SCHEMA,
        "run_id": plan.run_id,
        "job": plan.job_name,
        "by": user_at_machine(),
        "at": time.time(),
        "world_size": plan.world_size,
        "main_address": plan.main_address,
        "main_port": plan.main_port,
        "mixed_precision": plan.precision.mixed_precision,
        "guard": node.env.get("GPULAUNCH_GUARD", ""),
        "output": node.output,
        "nodes": [_node(each, ways.get(each.host)) for each in plan.nodes],
    }


def read_record(data: Mapping[str, Any]) -> Launched:
    """Return the launch that a record tells. Raises BadInput when it does not tell one."""
    try:
        guard = str(data.get("guard") or "")
        nodes = tuple(_read_node(node, guard) for node in data["nodes"])
        plan = Plan(
            run_id=str(data["run_id"]),
            job_name=str(data["job"]),
            nodes=nodes,
            world_size=int(data["world_size"]),
            main_address=str(data["main_address"]),
            main_port=int(data["main_port"]),
            precision=Decision(data["mixed_precision"], ()),
            changes=(),
            because=(),
            findings=(),
        )
        entries = tuple(_read_way(node) for node in data["nodes"])
        says_output = data.get("output") != ""
        return Launched(plan, entries, str(data["by"]), float(data["at"]), says_output)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"the record of this launch cannot be read: {error!r}") from None


def _node(node: NodePlan, way: HostEntry | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "host": node.host,
        "node_rank": node.node_rank,
        "first_rank": node.first_rank,
        "python": node.python,
        "slots": [
            [slot.local_rank, slot.gpu_uuid, slot.gpu_index, slot.gpu_name] for slot in node.ranks.slots
        ],
        "masked": node.ranks.masked,
    }
    if way is not None:
        data["way"] = {"address": way.address, "port": way.port, "user": way.user, "jump": list(way.jump)}
        data["way"]["alias"] = way.alias
    return data


def _read_node(data: Mapping[str, Any], guard: str) -> NodePlan:
    slots = tuple(
        RankSlot(int(rank), uuid, index, str(name or "")) for rank, uuid, index, name in data["slots"]
    )
    return NodePlan(
        host=str(data["host"]),
        node_rank=int(data["node_rank"]),
        ranks=NodeRanks(str(data["host"]), slots, bool(data["masked"]), ()),
        first_rank=int(data["first_rank"]),
        python=str(data["python"]),
        argv=(),
        env={"GPULAUNCH_GUARD": guard} if guard else {},  # whoever attaches judges by it
        unset=(),
        cwd="",
        files=(),
    )


def _read_way(data: Mapping[str, Any]) -> HostEntry:
    way = data.get("way") or {}
    return HostEntry(
        name=str(data["host"]),
        address=str(way.get("address") or ""),
        port=None if way.get("port") is None else int(way["port"]),
        user=str(way.get("user") or ""),
        jump=tuple(str(hop) for hop in way.get("jump") or ()),
        python=str(data["python"]),
        alias=str(way.get("alias") or data["host"]),
        listed=False,
    )
