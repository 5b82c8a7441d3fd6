"""How many nodes and processes a manifest asks for, in its keys and not in its command. Pure.

They become the variables that launchers of torch read, so that a command which says them itself still counts.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

_COUNT = re.compile(
    r"(?P<indent>[ ]*(?:- +)*)(?P<key>[A-Za-z_]\w*):[ ]+[\"']?(?P<value>\d{1,5})[\"']?[ ]*(?:#.*)?"
)
_KIND = re.compile(r"kind:[ ]*[\"']?(?P<kind>\w+)[\"']?[ ]*(?:#.*)?")
_REPLICAS = re.compile(r"[ ]*(?:- +)*(?P<role>[A-Za-z]\w*):[ ]*(?:#.*)?")
_CARDS = re.compile(
    r"[ ]+accelerators:[ ]*(?:[\"'{][ ]*)?[\w.-]+[ ]*:[ ]*(?P<count>\d{1,3})[ ]*(?:[\"'}][ ]*)?(?:#.*)?"
)
_OWN_COUNT = re.compile(r"(?:^|[\s/])(?:accelerate|deepspeed|mpirun|mpiexec|composer|colossalai)\b")
_VOLCANO = re.compile(r"apiVersion:[ ]*[\"']?batch\.volcano\.sh/")
_DOCUMENT = "---"

_NODES = ("num_nodes", "numNodes", "instance_count")
"""Of SkyPilot, of Kubeflow's Trainer, of Azure ML."""

_PER_NODE = ("process_count_per_instance", "numProcPerNode", "nprocPerNode")
"""Of Azure ML's `distribution:`, of Kubeflow's Trainer, of its PyTorchJob."""

_LAUNCHER = "launcher"
_NODES_OF_SKY, _CARDS_OF_SKY = "SKYPILOT_NUM_NODES", "SKYPILOT_NUM_GPUS_PER_NODE"


def count_variables(lines: Sequence[str], beside: range, command: str) -> Iterator[str]:
    """Yield assignments of a shell for what the keys around a command count.

    Processes of a node are those of torch's launcher or of a program without one: any other launcher is
    started once on each node and counts its own.

    `beside` are the lines of the mapping that has the command: a file of several jobs counts for each its
    own. What two keys say differently counts for neither.
    """
    document = _document(lines, beside)
    nodes = _said(lines, beside, document, _NODES) or _replicas(lines, document)
    per_node = _said(lines, beside, document, _PER_NODE)
    cards = {found["count"] for at in beside if (found := _CARDS.fullmatch(lines[at]))}
    if nodes and any(lines[at].startswith("num_nodes:") for at in document):
        yield f"{_NODES_OF_SKY}={nodes}\n"
    if len(cards) == 1:
        yield f"{_CARDS_OF_SKY}={cards.pop()}\n"
    if nodes:
        yield f"export NNODES={nodes}\n"
    if per_node and not _OWN_COUNT.search(command):
        yield f"export NPROC_PER_NODE={per_node}\n"


def _document(lines: Sequence[str], beside: range) -> range:
    """Return the lines of the document that has these, between two lines of `---`."""
    first, last = beside.start, beside.stop
    while first > 0 and not lines[first - 1].startswith(_DOCUMENT):
        first -= 1
    while last < len(lines) and not lines[last].startswith(_DOCUMENT):
        last += 1
    return range(first, last)


def _said(lines: Sequence[str], beside: range, document: range, keys: Sequence[str]) -> str:
    """Return the one value of these keys: beside the command, else in its document."""
    return _one(_values(lines, beside, keys)) or _one(_values(lines, document, keys))


def _values(lines: Sequence[str], where: range, keys: Sequence[str]) -> Iterator[str]:
    for at in where:
        found = _COUNT.fullmatch(lines[at])
        if found is not None and found["key"] in keys:
            yield found["value"]


def _one(values: Iterable[str]) -> str:
    distinct = {value for value in values if int(value)}
    return distinct.pop() if len(distinct) == 1 else ""


def _replicas(lines: Sequence[str], document: range) -> str:
    """Return the nodes of a job of Kubeflow: the replicas of its roles, but for an MPIJob's launcher."""
    kinds = {found["kind"] for at in document if (found := _KIND.fullmatch(lines[at]))}
    is_volcano = any(_VOLCANO.match(lines[at]) for at in document)
    if len(kinds) != 1 or not (is_volcano or kinds & {"PyTorchJob", "MPIJob"}):
        return ""
    total, role = 0, ""
    for at in document:
        count, head = _COUNT.fullmatch(lines[at]), _REPLICAS.fullmatch(lines[at])
        role = head["role"] if head is not None and head["role"][0].isupper() else role
        if count is not None and count["key"] == "replicas" and role.lower() != _LAUNCHER:
            total += int(count["value"])
    return str(total) if total else ""
