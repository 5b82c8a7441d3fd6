"""The job of Slurm that we are in."""

import os
import re
from collections.abc import Mapping

from launcher.config.host_names import is_plain_host
from launcher.errors import BadInput, SlurmError
from launcher.slurm.commands import local_commands, run_slurm
from launcher.slurm.environment import step_environment
from preflight.frozen import dataclass

JOB_ID = "SLURM_JOB_ID"
_GONE = re.compile(r"[Ii]nvalid job id|Job/step already completing or completed|[Ee]xpired", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Allocation:
    """A job that runs, and its nodes in Slurm's order. `environ` is what its commands get."""

    job: str
    nodes: tuple[str, ...]
    environ: Mapping[str, str]
    restarts: int = 0  # how often Slurm has started it again


def is_inside(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this process belongs to a job of Slurm."""
    return bool(environ.get(JOB_ID, ""))


def read_allocation(environ: Mapping[str, str] = os.environ) -> Allocation:
    """Return the job that we are in. Raises BadInput where we are in none, or in one that is over."""
    job = environ.get(JOB_ID, "")
    if not job.isdecimal():
        raise BadInput(
            "this is no job of Slurm: SLURM_JOB_ID is not set",
            "start gpulaunch inside salloc or sbatch, or let it write the job: gpulaunch submit -c NAME",
        )
    if environ.get("SLURM_HET_SIZE") or environ.get("SLURM_PACK_SIZE"):
        raise BadInput(
            f"Slurm job {job} is heterogeneous: it consists of several jobs, and one step cannot span them",
            "ask for all nodes in one job, or name the nodes: --hosts NODES --transport ssh",
        )
    clean = step_environment(environ)
    state, nodelist = _state(job, clean)
    names = run_slurm(local_commands(clean), ("scontrol", "show", "hostnames", nodelist)).split()
    if not names or not all(map(is_plain_host, names)):
        raise SlurmError(f"the nodes of Slurm job {job} ({state}) cannot be read: {nodelist!r}", "")
    restarts = environ.get("SLURM_RESTART_COUNT", "")
    return Allocation(job, tuple(names), clean, int(restarts) if restarts.isdecimal() else 0)


def _state(job: str, environ: Mapping[str, str]) -> tuple[str, str]:
    try:
        argv = ("squeue", "-h", "-t", "all", "-j", job, "-o", "%T|%N")
        told = run_slurm(local_commands(environ), argv).strip()
    except SlurmError as failure:
        if not _GONE.search(failure.message):
            raise
        told = ""
    state, _, nodelist = told.partition("|")
    if state != "RUNNING":
        how = f"it is {state}" if state else "Slurm does not know it any more"
        raise BadInput(
            f"Slurm job {job} does not run: {how}; this shell has outlived it",
            "leave the shell (or `unset SLURM_JOB_ID`), and ask for a new job",
        )
    return state, nodelist
