"""How many nodes and processes a manifest asks for, in its keys and not in its command. Pure.

They become variables in front of the command, by the names of their keys, so that a command which says them
itself still counts.
"""

from collections.abc import Iterable, Iterator, Sequence

from launcher.engines.command_line.manifests.lines import ENDS
from launcher.engines.command_line.tables.names import as_names
from launcher.errors import CommandRefused
from preflight import regex as re

_COUNT = re.compile(
    r"(?P<indent>[ ]*(?:- +)*)(?P<key>[A-Za-z_]\w*):[ ]+[\"']?(?P<value>\d{1,5})[\"']?[ ]*(?:#.*)?"
)
_KIND = re.compile(r"kind:[ ]*[\"']?(?P<kind>\w+)[\"']?[ ]*(?:#.*)?")
_REPLICATED = re.compile(r"(?:PyTorch|Torch|MPI)[A-Za-z]*Job")
_REPLICAS = re.compile(r"[ ]*(?:- +)*(?P<role>[A-Za-z]\w*):[ ]*(?:#.*)?")
_WORKLOADS = as_names("Job Pod PyTorchJob JobSet TrainJob StatefulSet Deployment LeaderWorkerSet")
_SHOWN = 200
_AZURE = re.compile(
    r"\$schema:[ ]*[\"']?https://azuremlschemas|[ ]*(?:environment|compute):[ ]*[\"']?azureml:"
)
_CONTAINERS = re.compile(r"[ ]*(?:- +)?containers:[ ]*(?:#.*)?")
_RUNS = re.compile(r"(?:services|jobs|resources):[ ]*(?:#.*)?|type:[ ]*[\"']?task[\"']?[ ]*(?:#.*)?")
"""What Compose, a workflow, SkyPilot and a task of dstack have at their start."""

_CARDS = re.compile(
    r"[ ]+(?:accelerators|gpu):[ ]*(?:[\"'{][ ]*)?(?:[\w.-]+[ ]*:[ ]*){1,2}"
    r"(?P<count>\d{1,3})[ ]*(?:[\"'}][ ]*)?(?:#.*)?"
)
_OWN_COUNT = re.compile(r"(?:^|[\s/])(?:accelerate|deepspeed|mpirun|mpiexec|composer|colossalai)\b")
_MPI = re.compile(r"\b(?:mpirun|mpiexec)\b")
_VOLCANO = re.compile(r"apiVersion:[ ]*[\"']?batch\.volcano\.sh/")

_NODES = ("num_nodes", "numNodes", "instance_count", "RoleReplicas")
"""Of SkyPilot, of Kubeflow's Trainer, of Azure ML, of Volcano Engine's tasks."""

_PER_NODE = ("process_count_per_instance", "numProcPerNode", "nprocPerNode")
"""Of Azure ML's `distribution:`, of Kubeflow's Trainer, of its PyTorchJob."""

ASKED = "ASKED_BY_KEY"  # of a variable that is a key: `ASKED_BY_KEY_nodes_num_nodes`

_TASK_OF_DSTACK = re.compile(r"type:[ ]*[\"']?task[\"']?[ ]*(?:#.*)?")
_POOLS_OF_VERTEX = re.compile(r"[ ]*workerPoolSpecs:[ ]*(?:#.*)?")
_RUN_OF_MOSAIC = re.compile(r"(?:compute|integrations|gpu_type|scheduling|run_name):.*")
_LAUNCHER = "launcher"


def count_variables(lines: Sequence[str], beside: range, command: str) -> Iterator[str]:
    """Yield assignments of a shell for what the keys around a command count.

    Processes of a node are those of torch's launcher or of a program without one: any other launcher is
    started once on each node and counts its own.

    `beside` are the lines of the mapping that has the command: a file of several jobs counts for each its
    own. What two keys say differently counts for neither.
    """
    document = find_document(lines, beside)
    nodes = _nodes(lines, beside, document, command)
    per_node = _said(lines, beside, document, _PER_NODE)
    cards = {found["count"] for at in beside if (found := _CARDS.fullmatch(lines[at]))}
    is_alone = not any(lines[at].startswith("nodes:") for at in document)
    number, card = nodes[1] if nodes else "", cards.pop() if len(cards) == 1 else ""
    variables = {
        **dict.fromkeys(("SKYPILOT_NUM_NODES", "DSTACK_NODES_NUM"), number),
        **dict.fromkeys(("SKYPILOT_NUM_GPUS_PER_NODE", "DSTACK_GPUS_PER_NODE"), card),
        "DSTACK_GPUS_NUM": str(int(card) * int(number or 1)) if card and (number or is_alone) else "",
    }
    used = command.replace("DSTACK_GPUS_NUM", "DSTACK_GPUS_NUM DSTACK_GPUS_PER_NODE")
    yield from (f"{name}={value}\n" for name, value in variables.items() if value and name in used)
    if nodes:
        yield _asked("nodes", nodes)
    if per_node and not _OWN_COUNT.search(command):
        yield _asked("per_node", per_node)
    if any(_RUN_OF_MOSAIC.fullmatch(lines[at]) for at in document):
        total = _said(lines, document, document, ("gpus",))
        if total:
            yield _asked("total", total)


def _asked(sets: str, key: tuple[str, str]) -> str:
    return f"export {ASKED}_{sets}_{key[0]}={key[1]}\n"


def _nodes(lines: Sequence[str], beside: range, document: range, command: str) -> tuple[str, str] | None:
    """Return the key that counts the nodes, and its number."""
    said = _said(lines, beside, document, _NODES) or _replicas(lines, document, command)
    said = said or _pods(lines, document)
    if said is None and any(_TASK_OF_DSTACK.fullmatch(lines[at]) for at in document):
        said = _one(_values(lines, document, ("nodes",)))
    if said is None and any(_POOLS_OF_VERTEX.fullmatch(lines[at]) for at in document):
        pools = sum(int(value) for _, value in _values(lines, document, ("replicaCount",)))
        said = ("replicaCount", str(pools)) if pools else None
    return said


def is_of_cluster(lines: Sequence[str]) -> bool:
    """Whether a manifest surely has commands that a cluster, a workflow or Compose starts."""
    if is_of_azure(lines) or any(map(_RUNS.fullmatch, lines)):
        return True
    kinds = [found["kind"] for line in lines if (found := _KIND.fullmatch(line))]
    return any(kind in _WORKLOADS for kind in kinds) and any(map(_CONTAINERS.fullmatch, lines))


def is_of_azure(lines: Iterable[str]) -> bool:
    """Whether lines are of a job of Azure ML."""
    return any(map(_AZURE.match, lines))


def refuse_ray(lines: Sequence[str], command: str) -> None:
    """Raise CommandRefused for a job that Ray divides among workers of its own."""
    if any((found := _KIND.fullmatch(line)) and found["kind"] == "RayJob" for line in lines):
        raise CommandRefused(
            "a RayJob starts workers of Ray, and gpulaunch starts processes itself",
            "where the script works without Ray, launch: gpulaunch run --hosts A,B -- "
            + command.strip()[:_SHOWN],
        )


def find_document(lines: Sequence[str], beside: range) -> range:
    """Return the lines of the document that has these, between two lines of `---`."""
    first, last = beside.start, beside.stop
    while first > 0 and not lines[first - 1].startswith(ENDS):
        first -= 1
    while last < len(lines) and not lines[last].startswith(ENDS):
        last += 1
    return range(first, last)


def _said(
    lines: Sequence[str], beside: range, document: range, keys: Sequence[str]
) -> tuple[str, str] | None:
    """Return the one of these keys that has a value: beside the command, else in its document."""
    return _one(_values(lines, beside, keys)) or _one(_values(lines, document, keys))


def _values(lines: Sequence[str], where: range, keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at in where:
        found = _COUNT.fullmatch(lines[at])
        if found is not None and found["key"] in keys:
            yield found["key"], found["value"]


def _one(said: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the key with the only value that several say, None where they differ."""
    distinct = {value: key for key, value in said if int(value)}
    return next(((key, value) for value, key in distinct.items()), None) if len(distinct) == 1 else None


def _pods(lines: Sequence[str], document: range) -> tuple[str, str] | None:
    """Return the pods of a Job or a JobSet: what `parallelism` says, for each of its `replicas`."""
    kinds = {found["kind"] for at in document if (found := _KIND.fullmatch(lines[at]))}
    pods = [value for _, value in _values(lines, document, ("parallelism",))]
    copies = [value for _, value in _values(lines, document, ("replicas",))]
    if not kinds & {"Job", "JobSet"} or len(pods) != 1 or len(copies) > 1:
        return None
    return "parallelism", str(int(pods[0]) * int(copies[0] if copies else 1))


def _replicas(lines: Sequence[str], document: range, command: str) -> tuple[str, str] | None:
    """Return the nodes of a job of Kubeflow or Volcano: the replicas of its roles, without that of mpirun."""
    kinds = {found["kind"] for at in document if (found := _KIND.fullmatch(lines[at]))}
    is_volcano = any(_VOLCANO.match(lines[at]) for at in document)
    if len(kinds) != 1 or not (is_volcano or any(map(_REPLICATED.fullmatch, kinds))):
        return None
    total, role = -int(is_volcano and _MPI.search(command) is not None), ""
    for at in document:
        count, head = _COUNT.fullmatch(lines[at]), _REPLICAS.fullmatch(lines[at])
        role = head["role"] if head is not None and head["role"][0].isupper() else role
        if count is not None and count["key"] == "replicas" and role.lower() != _LAUNCHER:
            total += int(count["value"])
    return ("replicas", str(total)) if total > 0 else None
