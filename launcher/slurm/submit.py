"""The text of a batch job, and how Slurm gets it, locally or on a login node."""

import posixpath
import shlex
from collections.abc import Iterable, Iterator, Sequence

from launcher.config.before_stop_options import BeforeStop
from launcher.config.slurm_options import KILL_WAIT_S, SlurmSpec
from launcher.durations import format_duration
from launcher.errors import GpulaunchError, SlurmError
from launcher.slurm.commands import run_slurm
from launcher.text import one_line
from launcher.transports.base import Connection
from preflight import regex as re

_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'
_MAKE_DIRECTORIES = """cd "$1" && shift &&
for path do mkdir -p -- "$path" || [ "${path#/}" != "$path" ] || exit 1; done"""
_MAYBE = "Slurm may take the job all the same: look at `squeue --me` before you submit again"
_FIXES = (
    ("invalid partition", "`sinfo -o %P` lists the partitions; set `partition` of slurm:"),
    (
        "invalid account",
        "`sacctmgr show associations user=$USER` lists your accounts; set `account` of slurm:",
    ),
    ("qos", "`sacctmgr show qos` lists them; set `qos` of slurm:"),
    ("node count", "`sinfo` shows how many nodes the partition has; set `nodes` of slurm:"),
    ("memory specification", "`sinfo -o '%P %m'` shows the memory of nodes in MiB; set `mem` of sbatch:"),
    (
        "node configuration",
        "`sinfo -o '%P %D %G %c %m'` shows what nodes have; ask for less of it in slurm:, or exclude fewer",
    ),
    ("not available (inactive", "`sinfo` shows which partitions are up; set `partition` of slurm:"),
    ("reservation", "`scontrol show reservation` lists them; set `reservation` of sbatch:"),
    ("feature", "`sinfo -o '%N %f'` lists the features of nodes; set `constraint` of sbatch:"),
    ("invalid node name", "`sinfo -N` lists the nodes; set `nodelist` or `exclude` of sbatch:"),
    ("license", "`scontrol show licenses` lists them; set `licenses` of sbatch:"),
    ("unrecognized option", "`sbatch --help` lists the options; correct it in sbatch: of slurm:"),
    ("gres", "`sinfo -o '%P %G'` shows which GPUs nodes have; set `gpus_per_node` of slurm:"),
    ("socket timed out", _MAYBE),
    ("has not answered", _MAYBE),
    ("time limit", "`sinfo -o '%P %l'` shows the limits; set `time` of slurm:"),
)
_NODES_FIX = "`sinfo -o '%P %D'` shows how many nodes the partition has; set `nodes` of slurm:"
WAIT_FIXES = {
    "PartitionConfig": "`sinfo -o '%P %D %s %l'` shows the partition's nodes, how many a job gets, its time"
    " limit; set `nodes` or `time` of slurm:",
    "PartitionNodeLimit": _NODES_FIX,
    "PartitionTimeLimit": "`sinfo -o '%P %l'` shows the limits; set `time` of slurm:",
    "PartitionDown": "`sinfo` shows which partitions are up; set `partition` of slurm:",
    "PartitionInactive": "`sinfo` shows which partitions are up; set `partition` of slurm:",
    "BadConstraints": "`sinfo -o '%P %D %G'` shows what nodes have, and none has all of it; change slurm:",
}
"""What to do about a job that waits and does not start as it is, by Slurm's reason (man squeue)."""
_REASON_TIMEOUT_S = 10.0
WARN_SIGNAL = "USR1"
OUTPUT = "slurm-%j.out"
ARRAY_OUTPUT = "slurm-%A_%a.out"
_JOB_ID = re.compile(r"(?P<job>\d+)(?:;[\w.-]+)?")


def submit_job(
    connection: Connection, text: str, *, workdir: str = "", directories: Sequence[str] = ()
) -> str:
    """Submit a batch script; return the job's id. Raises SlurmError and BadInput.

    `workdir` is where the job is submitted from on a login node, relative to the home on it. `directories`
    are made first: a job whose output has no place ends at once, without a word (slurmd does not make them).
    An absolute one may be on the nodes alone, and need not be made.
    """
    if directories:
        place = workdir.removeprefix("~/") or "."
        run_slurm(connection, ("sh", "-c", _MAKE_DIRECTORIES, "sh", place, *directories))
    argv: tuple[str, ...] = ("sbatch", "--parsable")
    if workdir:
        argv = ("sh", "-c", _IN_DIRECTORY, "sh", workdir.removeprefix("~/"), *argv)
    try:
        output = run_slurm(connection, argv, text=text)
    except SlurmError as failure:
        words = failure.message.lower()
        fix = next((fix for sign, fix in _FIXES if sign in words), failure.fix)
        raise type(failure)(failure.message, fix) from None
    job = read_job_id(output)
    if not job:
        raise SlurmError(f"sbatch printed no job id, but: {shlex.quote(output.strip()[:80])}", "")
    return job


def read_wait_reason(connection: Connection, job: str) -> str:
    """Return Slurm's reason for which a job has not started (`Resources`); "" where it gives none."""
    argv = ("squeue", "-h", "-j", job, "-t", "PENDING", "-o", "%r")
    try:
        reason = run_slurm(connection, argv, timeout_s=_REASON_TIMEOUT_S).strip()
    except GpulaunchError:  # the job is submitted: that is the answer, though its login node is gone
        return ""
    return "" if reason == "None" else one_line(reason, 100)


def describe_short_wait(spec: SlurmSpec, before_stop: BeforeStop | None) -> str:
    """Return that Slurm kills a run that before_stop still waits for, "" where it does not."""
    if before_stop is None or before_stop.wait_s <= KILL_WAIT_S:
        return ""
    wait = format_duration(before_stop.wait_s)
    warns = f"{format_duration(spec.warn_s)} before the time limit (write slurm: {{warn: {wait}}})"
    short = f" {warns} and" if spec.warn_s < before_stop.wait_s else ""
    return (
        f"before_stop waits up to {wait}, and Slurm kills the job{short} {format_duration(KILL_WAIT_S)} after"
        " scancel (KillWait): gpulaunch stop JOB waits for the run"
    )


def describe_job(job: str, spec: SlurmSpec) -> str:
    """Return by which commands a job is followed; each task of an array has a run of its own."""
    first = re.match(r"\d+", spec.sbatch.get("array", ""))
    name = f"{job}_{first[0]}" if first is not None else job
    tasks = ", an array; of a task" if first is not None else ""
    return f"job {job}{tasks}: gpulaunch logs {name} -f; gpulaunch attach {name}; gpulaunch stop {name}"


def describe_wait(job: str, reason: str) -> str:
    """Return why a job never starts as it is, and the fix; "" for one that only has to wait."""
    fix = WAIT_FIXES.get(reason, "")
    return (
        f"it does not start as it is ({reason}): {fix} in the run config; gpulaunch stop {job} cancels it"
        if fix
        else ""
    )


def list_output_dirs(spec: SlurmSpec) -> tuple[str, ...]:
    """Return the directories, as sbatch reads them, that Slurm's own logs of the job go to."""
    base = spec.sbatch.get("chdir", "")
    files = (spec.sbatch[option] for option in ("output", "error") if option in spec.sbatch)
    found = (posixpath.dirname(posixpath.join(base, file)) for file in files)
    return tuple(dict.fromkeys(each for each in found if each and "%" not in each))


def render_batch_script(name: str, spec: SlurmSpec, command: Iterable[str], *, workdir: str) -> str:
    """Return a whole batch script: options, then the one command that it becomes.

    `exec`, so that the warning signal, which Slurm sends to the script's own process, reaches gpulaunch.
    """
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in _options(name, spec, workdir))]
    return "\n".join([*lines, "", f"exec {shlex.join(command)}"]) + "\n"


def _options(name: str, spec: SlurmSpec, workdir: str) -> Iterator[str]:
    theirs = spec.sbatch
    if "job-name" not in theirs:
        yield f"--job-name={_value(name)}"
    yield f"--nodes={spec.nodes + spec.spare_nodes}"
    yield "--ntasks-per-node=1"
    if spec.gpus_per_node:
        yield f"--gpus-per-node={spec.gpus_per_node}"
    for option in ("time", "partition", "account", "qos"):
        if value := getattr(spec, option):
            yield f"--{option}={value}"
    yield "--requeue" if spec.requeue else "--no-requeue"
    if spec.spare_nodes:
        yield "--no-kill"  # the job continues without a node that fails
    if spec.warn_s:
        yield f"--signal=B:{WARN_SIGNAL}@{spec.warn_s:.0f}"
    yield "--open-mode=append"  # a job that is started again writes on
    if "output" not in theirs:
        yield f"--output={ARRAY_OUTPUT if 'array' in theirs else OUTPUT}"
    if workdir and "chdir" not in theirs:
        yield f"--chdir={_value(workdir)}"
    for option, value in theirs.items():
        if value != "false":
            yield f"--{option}" if value == "true" else f"--{option}={_value(value)}"


def _value(text: str) -> str:
    """Quote a value where sbatch would cut it at a blank or a comment sign."""
    return text if re.fullmatch(r"[^\s#]*", text) else f'"{text}"'


def read_job_id(text: str) -> str:
    """Return the job id in what `sbatch --parsable` prints (`ID` or `ID;CLUSTER`), "" where there is none."""
    found = _JOB_ID.fullmatch(text.strip().splitlines()[-1].strip()) if text.strip() else None
    return found["job"] if found else ""
