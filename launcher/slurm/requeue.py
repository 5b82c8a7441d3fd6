"""A job that is started again by Slurm, without the nodes that went bad. gpulaunch drains no node."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from launcher import safe_json
from launcher.errors import GpulaunchError, SlurmError
from launcher.local.atomic_write import write_atomic
from launcher.slurm.commands import open_local_commands, run_slurm
from launcher.slurm.jobs import EARLIER_STARTS, RESTARTS, Allocation
from launcher.slurm.submit import read_job_id
from launcher.text import one_line
from preflight import regex as re
from preflight.facts.json_codec import encode
from preflight.frozen import dataclass

RequeueAction: TypeAlias = Literal["replaced", "requeued", "resubmitted", "none"]
_REQUEUE = """\
trap "" TERM
said=$(scontrol requeue "$1" 2>&1) || case $said in
  *"is pending execution"*) ;;
  *) echo "$said" >&2; exit 1 ;;
esac
[ -z "$2" ] || scontrol update "JobId=$1" "ExcNodeList=$2"
"""
"""One shell for both, and deaf to SIGTERM: Slurm starts to end this very job with the first, and takes a list
of excluded nodes only for a job that waits (scontrol: "Job is no longer pending execution"). Where Slurm has
requeued the job itself, for a node that failed, it waits already ("Job is pending execution")."""
_EXCLUDED = re.compile(r"\bExcNodeList=(\S+)")
_NONE = "(null)"
_REPEATED = {
    "Partition": "partition",
    "Account": "account",
    "QOS": "qos",
    "TimeLimit": "time",
    "Reservation": "reservation",
    "TresPerNode": "gres",
    "WorkDir": "chdir",
}
"""Fields of `scontrol show job`, and the options of sbatch that they come from: those that were typed on the
command line are not in the script."""
_UNSET = ("", _NONE, "N/A", "UNLIMITED", "Partition_Limit")
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class BadNodes:
    """The job after nodes went bad. `nodes` holds the reason of each."""

    job: str
    nodes: Mapping[str, str]
    action: RequeueAction = "none"
    excluded: str = ""  # the whole list that Slurm has now
    new_job: str | None = None
    why: str = ""  # nothing more was done

    @property
    def line(self) -> str:
        """The line for programs: `BAD-NODES` and a JSON document."""
        return "BAD-NODES " + json.dumps(encode(self))

    @property
    def admin_lines(self) -> tuple[str, ...]:
        """What the administrator may type; gpulaunch never drains."""
        return tuple(
            f"for the administrator: scontrol update nodename={node} state=drain"
            f' reason="gpulaunch: {_plain(why)}"'
            for node, why in self.nodes.items()
        )


def exclude_and_requeue(
    allocation: Allocation, nodes: Mapping[str, str], limit: int, record: Path
) -> BadNodes:
    """Have Slurm start the job again without these nodes, `limit` times at most; else submit a new one.

    `record` is written first: to requeue a job ends this process.
    """
    found = BadNodes(allocation.job, nodes)
    if refusal := _refusal(allocation, limit):
        return replace(found, why=refusal)
    try:
        excluded = ",".join((*_excluded_so_far(allocation), *nodes))
        save_record(record, allocation, excluded=excluded, reasons=nodes)
        return _requeue(allocation, found, excluded, record)
    except (GpulaunchError, OSError) as error:
        return replace(found, why=one_line(str(error), 300))


def requeue_job(allocation: Allocation, limit: int, record: Path) -> str:
    """Have Slurm start the job again, `limit` times at most; return "" or why not."""
    if refusal := _refusal(allocation, limit):
        return refusal
    try:
        save_record(record, allocation, excluded="", reasons={})
        _run_requeue(allocation, "")
    except (GpulaunchError, OSError) as error:
        return one_line(str(error), 300)
    return ""


def _refusal(allocation: Allocation, limit: int) -> str:
    """Return why the job is not started again, "" where it is; a new job in its place counts as a start."""
    if allocation.restarts < limit:
        return ""
    return f"started again {limit} times already" if limit else "requeue of slurm: is not set"


def save_record(path: Path, allocation: Allocation, *, excluded: str, reasons: Mapping[str, str]) -> None:
    """Keep since when the job has run, which nodes it does without and why. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    began = read_began(path) or allocation.began
    document = {"job": allocation.job, "began": began, "excluded": excluded, "reasons": dict(reasons)}
    write_atomic(path, json.dumps(document, indent=1) + "\n")


def read_began(path: Path) -> float:
    """Return when the job began for the first time, 0 where nothing says so."""
    try:
        found: Any = safe_json.loads(path.read_bytes()[:_MAX_BYTES])
        return float(found["began"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0.0


def _requeue(allocation: Allocation, found: BadNodes, excluded: str, record: Path) -> BadNodes:
    try:
        _run_requeue(allocation, excluded)
    except SlurmError as refused:
        return _resubmit(allocation, found, excluded, record, refused)
    return replace(found, action="requeued", excluded=excluded)


def _run_requeue(allocation: Allocation, excluded: str) -> None:
    argv = ("sh", "-c", _REQUEUE, "sh", allocation.name, excluded)
    run_slurm(open_local_commands(allocation.environ), argv)


def _resubmit(
    allocation: Allocation, found: BadNodes, excluded: str, record: Path, refused: SlurmError
) -> BadNodes:
    """Submit the job's own script once more, with its resources, to start when this job has ended."""
    # Of a first start Slurm sets no count of its own, and sbatch passes on what it finds.
    here = open_local_commands({k: value for k, value in allocation.environ.items() if k != RESTARTS})
    output = run_slurm(here, ("scontrol", "show", "job", allocation.name))
    script = run_slurm(here, ("scontrol", "write", "batch_script", allocation.job, "-"))
    options = (
        f"--nodes={len(allocation.nodes)}",  # of a job that has lost one Slurm shows fewer
        *read_resource_options(output),
        f"--exclude={excluded}",
        f"--dependency=afterany:{allocation.name}",
        *(f"--array={task}" for task in (allocation.task.rpartition("_")[2],) if task),
    )
    count = f"--export=ALL,{EARLIER_STARTS}={allocation.restarts + 1}"
    output = run_slurm(here, ("sbatch", "--parsable", *options, count), text=script)
    job = read_job_id(output)
    if not job:
        raise refused
    save_record(record.with_name(f"slurm-{job}.json"), allocation, excluded=excluded, reasons=found.nodes)
    return replace(found, action="resubmitted", excluded=excluded, new_job=job)


def read_resource_options(output: str) -> tuple[str, ...]:
    """Return the options of sbatch for the resources of a job, from what `scontrol show job` says."""
    return tuple(
        f"--{option}={value}" for field, option in _REPEATED.items() if (value := _resource(output, field))
    )


def _resource(output: str, field: str) -> str:
    # WorkDir is a line of its own, and a path may hold spaces.
    match = re.search(
        rf"^\s*{field}=(.*)$" if field == "WorkDir" else rf"\b{field}=(\S*)", output, re.MULTILINE
    )
    value = match[1].strip() if match else ""
    if value in _UNSET:
        return ""
    if field == "TresPerNode":  # gres:gpu:1 and, from Slurm 23.02 on, gres/gpu:1
        kept = [re.sub(r"^gres[:/]", "", part) for part in value.split(",") if part.startswith("gres")]
        return ",".join(kept)
    return value


def _excluded_so_far(allocation: Allocation) -> Iterable[str]:
    output = run_slurm(open_local_commands(allocation.environ), ("scontrol", "show", "job", allocation.name))
    match = _EXCLUDED.search(output)
    return () if match is None or match[1] == _NONE else (match[1],)


def _plain(text: str) -> str:
    """Return text that stays one word of a shell in double quotes."""
    return re.sub(r"[^\w .,:;/()+=-]", "", one_line(text, 120))
