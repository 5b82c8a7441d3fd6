"""What a launch leaves on each of its hosts about all of them, so that any machine can find it whole."""

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.config.host_ranges import MAX_HOSTS
from launcher.config.inventory import HostEntry, check_entry
from launcher.config.via_options import COMMAND, Via
from launcher.errors import PathRefused
from launcher.local.home import user_state_dir
from launcher.local.project import local_runs_dir
from launcher.local.safe_paths import join_below, remove_oldest, write_below
from launcher.local.user import format_user_at_machine
from launcher.planning.plan import NodePlan, Plan
from launcher.rundir.run_id import is_run_id
from launcher.text import one_line
from preflight.decide.decision import Decision, NodeRanks, RankSlot
from preflight.errors import BadInput, MalformedFacts
from preflight.facts.json_codec import decode, encode
from preflight.frozen import dataclass
from preflight.job import Precision

MAX_RECORDS = 200
SCHEMA = "gpulaunch.launch/1"
_MOST_RANKS = 1 << 20
_MAX_UNSEEN = 5 * MAX_RECORDS
"""A launch whose end was not seen is forgotten where there are so many newer ones."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A launch as its record describes it."""

    plan: Plan  # argv, environment (but for the guard's mode) and files are not printed again
    entries: tuple[HostEntry, ...]  # how the launching client reached each node, in the order of the nodes
    started_by: str  # user@machine
    at: float  # when, by that machine's clock
    has_output: bool = True  # whether it was said where the script writes
    # In local records only:
    over: bool = False  # its end was seen
    silent: tuple[str, ...] = ()  # hosts of one that is over, which did not answer when they were last asked
    logs: str = ""  # the directory that keeps the runs of the project it was launched in; "": not known

    def is_same_launch(self, other: "RunRecord") -> bool:
        """Return whether two nodes' records describe one launch; guard and output are each node's own."""
        mine, theirs = ([replace(node, env={}) for node in each.plan.nodes] for each in (self, other))
        same = replace(self.plan, nodes=()) == replace(other.plan, nodes=())
        return same and mine == theirs and self.entries == other.entries


@dataclass(frozen=True, slots=True)
class _ConnectionRecord:
    address: str = ""
    port: int | None = None
    user: str = ""
    jump: tuple[str, ...] = ()
    alias: str = ""
    via: Via | None = None  # of a command only that there was one: hosts.yaml alone has its words
    identity_file: str = ""  # in local records only: no host is to know it


@dataclass(frozen=True, slots=True)
class _NodeRecord:
    host: str
    node_rank: int
    first_rank: int
    python: str
    slots: tuple[tuple[int, str | None, int | None, str], ...]
    masked: bool
    way: _ConnectionRecord = _ConnectionRecord()


@dataclass(frozen=True, slots=True)
class _RecordShape:
    run_id: str
    job: str
    started_by: str
    at: float
    world_size: int
    main_address: str
    main_port: int
    mixed_precision: Precision
    nodes: tuple[_NodeRecord, ...]
    guard: str = ""
    output: str | None = None
    engine: str = ""
    over: bool = False
    silent: tuple[str, ...] = ()
    logs: str = ""


def build_run_record(plan: Plan, node: NodePlan, entries: Iterable[HostEntry]) -> dict[str, Any]:
    """Return the record that goes to one node. No argument and no variable of the script's is in it."""
    return {**build_record_head(plan, node), "nodes": build_record_nodes(plan, entries)}


def build_record_nodes(plan: Plan, entries: Iterable[HostEntry]) -> list[dict[str, Any]]:
    """Return what the records of all nodes have in common: how each node is planned and reached."""
    by_host = {entry.name: entry for entry in entries}
    return [_node(each, by_host.get(each.host)) for each in plan.nodes]


def build_record_head(plan: Plan, node: NodePlan) -> dict[str, Any]:
    """Return a node's record but for what it says of all nodes."""
    return {
        "schema": SCHEMA,
        "run_id": plan.run_id,
        "job": plan.job_name,
        "started_by": format_user_at_machine(),
        "at": time.time(),
        "world_size": plan.world_size,
        "main_address": plan.main_address,
        "main_port": plan.main_port,
        "mixed_precision": plan.precision.mixed_precision,
        "engine": plan.engine,
        "guard": node.env.get("GPULAUNCH_GUARD", ""),
        "output": node.output_dir,
    }


def read_record(data: object, *, sent: bool = True) -> RunRecord:
    """Return the launch that a record describes. Raises BadInput when no launch can have left it.

    `sent`: a host has sent it; such a one names hosts by IP addresses and DNS names only.
    """
    try:
        record = decode(_RecordShape, data)
    except MalformedFacts as misfit:
        words = one_line(misfit.message)
        raise BadInput(f"the record of this launch cannot be read: {words}") from None
    plan = Plan(
        run_id=record.run_id,
        job_name=record.job,
        nodes=tuple(_plan_node(node, record.guard) for node in record.nodes),
        world_size=record.world_size,
        main_address=record.main_address,
        main_port=record.main_port,
        precision=Decision(record.mixed_precision, ()),
        changes=(),
        reasons=(),
        findings=(),
        engine=record.engine,
    )
    entries = tuple(
        _entry(node, identity_file="" if sent else node.way.identity_file) for node in record.nodes
    )
    launched = RunRecord(plan, entries, record.started_by, record.at, record.output != "")
    if not sent:
        launched = replace(launched, over=record.over, silent=record.silent, logs=record.logs)
    problem = _problem(launched, sent=sent)
    if problem:
        raise BadInput(f"the record of this launch cannot be right: {one_line(problem)}")
    return launched


def _problem(launched: RunRecord, *, sent: bool) -> str:
    """Return why no launch of ours can have left this record, "" where one can."""
    plan = launched.plan
    if not is_run_id(plan.run_id):
        return f'"{plan.run_id}" is not a run id'
    if len(plan.nodes) > MAX_HOSTS or not 0 < plan.world_size < _MOST_RANKS:
        return "more nodes or ranks than a launch can have"
    names = [entry.name.casefold() for entry in launched.entries]
    if not names or len(set(names)) < len(names):
        return "it has no nodes, or one host twice"
    first = 0
    for number, node in enumerate(plan.nodes):
        locals_ = [slot.local_rank for slot in node.ranks.slots]
        if (node.node_rank, node.first_rank, locals_) != (number, first, list(range(len(locals_)))):
            return "its ranks do not follow each other"
        first += len(locals_)
    if first != plan.world_size:
        return f"it has {first} ranks, and a world of {plan.world_size}"
    if not plan.main_port < 1 << 16:
        return f"{plan.main_port} is not a port"
    return next(filter(None, (_connection_problem(entry, sent=sent) for entry in launched.entries)), "")


def _connection_problem(entry: HostEntry, *, sent: bool) -> str:
    if not entry.python.isprintable() or entry.python.startswith("-") or not entry.python:
        return f"{entry.python!r} is not an interpreter"
    if entry.via is not None and entry.via.kind == COMMAND:
        entry = replace(entry, via=None)  # it is opened by its entry in hosts.yaml, or not at all
    return check_entry(entry, sent=sent)


def _node(node: NodePlan, way: HostEntry | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "host": node.host,
        "node_rank": node.node_rank,
        "first_rank": node.first_rank,
        "python": node.python,
        "slots": [
            [slot.local_rank, slot.gpu_uuid, slot.gpu_index, slot.gpu_name] for slot in node.ranks.slots
        ],
        "masked": node.ranks.single_gpu_visible,
    }
    if way is not None:
        data["way"] = {key: encode(getattr(way, key)) for key in ("address", "port", "user", "jump", "alias")}
        if way.via is not None:
            data["way"]["via"] = encode(replace(way.via, words=()))
    return data


def _plan_node(node: _NodeRecord, guard: str) -> NodePlan:
    slots = tuple(RankSlot(*slot) for slot in node.slots)
    return NodePlan(
        host=node.host,
        node_rank=node.node_rank,
        ranks=NodeRanks(slots, node.masked, ()),
        first_rank=node.first_rank,
        python=node.python,
        argv=(),
        env={"GPULAUNCH_GUARD": guard} if guard else {},  # a client that attaches judges by it
        unset=(),
        cwd="",
        files=(),
    )


def _entry(node: _NodeRecord, *, identity_file: str) -> HostEntry:
    way = node.way
    return HostEntry(
        name=node.host,
        address=way.address,
        port=way.port,
        user=way.user,
        jump=way.jump,
        python=node.python,
        alias=way.alias or node.host,
        via=replace(way.via, words=()) if way.via is not None and way.via.kind else None,
        identity_file=identity_file,
        in_inventory=False,
    )


def records_dir() -> Path:
    """Return where this user's launches are remembered, one file each."""
    return user_state_dir() / "launches"


def save_run_record(record: Mapping[str, Any], identity_files: Mapping[str, str] | None = None) -> None:
    """Keep a launch's record locally, if possible (the hosts have it), with its project and named keys."""
    if identity_files:
        nodes = [
            {**node, "way": {**node.get("way", {}), "identity_file": identity_files.get(node["host"], "")}}
            for node in record["nodes"]
        ]
        record = {**record, "nodes": nodes}
    try:
        folder = records_dir()
        record = {**record, "logs": str(local_runs_dir().resolve())}
        write_below(folder, f"{record['run_id']}.json", json.dumps(record) + "\n")
        remove_oldest(folder, _MAX_UNSEEN)
        remove_oldest(folder, MAX_RECORDS, _may_live)
    except (OSError, PathRefused):
        return


def _may_live(path: Path) -> bool:
    """Return whether the end of a launch was not seen: after hundreds of short ones it is still found."""
    with suppress(OSError, ValueError, RecursionError, AttributeError):
        return json.loads(path.read_text()).get("over") is not True
    return False


def note_in_record(run_id: str, *, over: bool, silent: Iterable[str] = ()) -> None:
    """Note in a local record whether the run's end was seen, and which of its hosts are silent since.

    A record that is gone, or cannot be written, stays as it is: its hosts are then asked as before.
    """
    try:
        path = join_below(records_dir(), f"{run_id}.json")
        record, times = json.loads(path.read_text()), path.stat()
        write_below(path.parent, path.name, json.dumps({**record, "over": over, "silent": [*silent]}) + "\n")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # the oldest launches are forgotten first
    except (OSError, ValueError, PathRefused):
        return


def delete_run_record(run_id: str) -> None:
    """Drop the record of a run that has been removed."""
    join_below(records_dir(), f"{run_id}.json").unlink(missing_ok=True)


def list_run_ids() -> tuple[str, ...]:
    """Return the ids of the launches that this machine remembers, without a look at them."""
    return tuple(path.stem for path in records_dir().glob("*.json")) if records_dir().is_dir() else ()


def read_run_records() -> dict[str, RunRecord]:
    """Return the launches that this machine remembers, by run id."""
    found: dict[str, RunRecord] = {}
    for path in sorted(records_dir().glob("*.json")) if records_dir().is_dir() else ():
        try:
            launched = read_record(json.loads(path.read_text()), sent=False)
        except (OSError, ValueError, RecursionError, BadInput):
            continue
        if launched.plan.run_id == path.stem:
            found[launched.plan.run_id] = launched
    return found
