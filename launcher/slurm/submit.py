"""A job handed to Slurm, locally or on a login node."""

import shlex

from launcher.errors import SlurmError
from launcher.slurm.commands import run_slurm
from launcher.slurm.sbatch_text import read_job_id
from launcher.transports.base import Connection

_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'
_FIXES = (
    ("invalid partition", "`sinfo -o %P` lists the partitions; set `partition` of slurm:"),
    (
        "invalid account",
        "`sacctmgr show associations user=$USER` lists your accounts; set `account` of slurm:",
    ),
    ("qos", "`sacctmgr show qos` lists them; set `qos` of slurm:"),
    ("node count", "`sinfo` shows how many nodes the partition has; set `nodes` of slurm:"),
    ("node configuration", "`sinfo -o '%P %G %c %m'` shows what nodes have; set `gpus_per_node` of slurm:"),
    ("gres", "`sinfo -o '%P %G'` shows which GPUs nodes have; set `gpus_per_node` of slurm:"),
    ("time limit", "`sinfo -o '%P %l'` shows the limits; set `time` of slurm:"),
)


def submit_job(connection: Connection, text: str, *, workdir: str = "") -> str:
    """Submit a batch script; return the job's id. Raises SlurmError and BadInput.

    `workdir` is where the job is submitted from on a login node, relative to the home on it.
    """
    argv: tuple[str, ...] = ("sbatch", "--parsable")
    if workdir:
        argv = ("sh", "-c", _IN_DIRECTORY, "sh", workdir.removeprefix("~/"), *argv)
    try:
        output = run_slurm(connection, argv, text=text)
    except SlurmError as failure:
        words = failure.message.lower()
        fix = next((fix for sign, fix in _FIXES if sign in words), failure.fix)
        raise SlurmError(failure.message, fix) from None
    job = read_job_id(output)
    if not job:
        raise SlurmError(f"sbatch printed no job id, but: {shlex.quote(output.strip()[:80])}", "")
    return job
