"""Jobs of Slurm, the one that we are in or one by its id: nodes, state, why one is pending, cancellation."""

import os
import re
import time
from collections.abc import Mapping

from launcher.config.host_names import is_plain_host
from launcher.errors import BadInput, SlurmError
from launcher.slurm.commands import open_local_commands, run_slurm, step_environment
from launcher.text import one_line
from preflight.frozen import dataclass

JOB_ID = "SLURM_JOB_ID"
RESUBMITS = "GPULAUNCH_RESUBMITS"
"""How many jobs before this one were given up for a new one: each starts with no restarts of its own."""
_DOWN = ("down", "fail", "unknown", "powered", "rebooting")
_GONE = re.compile(r"invalid job id", re.IGNORECASE)
_REASON = re.compile(r"\bReason=(\S+)")
_OUTPUT = re.compile(r"^\s*StdOut=(\S.*)$", re.MULTILINE)
_LIVES = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "CONFIGURING")
_WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
_ASK_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Allocation:
    """A job that runs, and its nodes in Slurm's order. `environ` is what its commands get."""

    job: str
    nodes: tuple[str, ...]
    environ: Mapping[str, str]
    restarts: int = 0  # how often Slurm has started it again
    began: float = 0.0  # when this process read it, by the wall clock
    resubmits: int = 0  # how many jobs before it were given up for a new one


def is_inside(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process belongs to a job of Slurm."""
    return bool(environ.get(JOB_ID, ""))


def read_allocation(environ: Mapping[str, str] = os.environ) -> Allocation:
    """Return the job that we are in. Raises BadInput where we are in none, or in one that is over."""
    job = environ.get(JOB_ID, "")
    if not job.isdecimal():
        raise BadInput(
            f"this is not a job of Slurm: SLURM_JOB_ID is {_said(job)}",
            "start gpulaunch inside salloc or sbatch, or let it write the job: gpulaunch submit -c NAME",
        )
    if environ.get("SLURM_HET_SIZE") or environ.get("SLURM_PACK_SIZE"):
        raise BadInput(
            f"Slurm job {job} is heterogeneous: it consists of several jobs, and one step cannot span them",
            "ask for all nodes in one job, or name the nodes: --hosts NODES --transport ssh",
        )
    state, nodelist = read_job_state(job, environ)
    if state != "RUNNING":
        raise BadInput(
            f"Slurm job {job} does not run: {_described(state)}; this shell has outlived it",
            "leave the shell (or `unset SLURM_JOB_ID`), and ask for a new job",
        )
    return _running(job, nodelist, environ)


def _said(job: str) -> str:
    return f'"{one_line(job, 40)}", which is not the id of a job' if job else "not set"


def read_job(job: str, environ: Mapping[str, str] = os.environ) -> Allocation:
    """Return a job that runs, by its id. Raises BadInput for one that does not."""
    state, nodelist = read_job_state(job, environ)
    if state == "RUNNING":
        return _running(job, nodelist, environ)
    if state == "PENDING":
        why = f" ({reason})" if (reason := _shown(_REASON, job, environ)) not in ("", "None") else ""
        fix = f"`squeue -j {job} --start` says when it may start; `gpulaunch stop {job}` cancels it"
        raise BadInput(f"Slurm job {job} waits: it is PENDING{why}", fix)
    fix = "`squeue -u $USER` lists your jobs; where it was submitted, gpulaunch report last shows its run"
    if state and (path := _shown(_OUTPUT, job, environ)):
        fix = f"its output is in {path}; where it was submitted, gpulaunch report last shows its run"
    raise BadInput(f"Slurm job {job} does not run: {_described(state)}", fix)


def read_job_state(job: str, environ: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """Return the state of a job and its nodes as Slurm writes them; "" where Slurm knows no such job."""
    argv = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T|%N")
    try:
        output = run_slurm(open_local_commands(step_environment(environ)), argv).strip()
    except SlurmError as failure:
        if not _GONE.search(failure.message):
            raise
        output = ""
    state, _, nodelist = output.partition("|")
    return state, nodelist


def _described(state: str) -> str:
    return f"it is {state}" if state else "Slurm does not know it any more"


def _running(job: str, nodelist: str, environ: Mapping[str, str]) -> Allocation:
    clean = step_environment(environ)
    names = run_slurm(open_local_commands(clean), ("scontrol", "show", "hostnames", nodelist)).split()
    if not names or not all(map(is_plain_host, names)):
        raise SlurmError(f"the nodes of Slurm job {job} cannot be read: {nodelist!r}", "")
    restarts, resubmits = (_count(environ, name) for name in ("SLURM_RESTART_COUNT", RESUBMITS))
    return Allocation(job, tuple(names), clean, restarts, time.time(), resubmits)


def list_usable_nodes(allocation: Allocation) -> tuple[str, ...]:
    """Return the nodes of a job that Slurm does not call down; all of them where it does not say."""
    argv = ("sinfo", "-h", "-N", "-n", ",".join(allocation.nodes), "-o", "%N|%T")
    try:
        output = run_slurm(open_local_commands(allocation.environ), argv)
    except SlurmError:
        return allocation.nodes
    rows = [line.partition("|") for line in output.splitlines()]
    down = {name for name, _, state in rows if state.startswith(_DOWN)}
    return tuple(node for node in allocation.nodes if node not in down)


def _count(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    return int(text) if text.isdecimal() else 0


def _shown(field: "re.Pattern[str]", job: str, environ: Mapping[str, str]) -> str:
    """Return a field of what `scontrol show job` says, "" where it says nothing."""
    try:
        output = run_slurm(open_local_commands(step_environment(environ)), ("scontrol", "show", "job", job))
    except SlurmError:
        return ""
    found = field.search(output)
    return one_line(found[1], 400) if found else ""


def cancel_job(job: str) -> None:
    """Cancel a job. Raises SlurmError."""
    run_slurm(open_local_commands(), ("scancel", job))


def cancel_waiting(job: str) -> bool:
    """Cancel a job that has not started; return whether it was one. Raises SlurmError."""
    state, _ = read_job_state(job)
    if state not in _WAITS:
        return False
    run_slurm(open_local_commands(), ("scancel", "--state=PENDING", job))
    return True


def await_end(job: str, timeout_s: float) -> bool:
    """Wait for a job's end; return whether it has ended."""
    deadline = time.monotonic() + timeout_s
    while read_job_state(job)[0] in _LIVES:
        if time.monotonic() > deadline:
            return False
        time.sleep(_ASK_EVERY_S)
    return True
