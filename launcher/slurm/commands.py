"""Slurm's own commands, locally or on a login node: only those that print the same in all versions."""

import os
from collections.abc import Mapping, Sequence

from launcher.config.inventory import LOCALHOST
from launcher.errors import BadInput, CommandTimedOut, SlurmError, SlurmSilent
from launcher.text import one_line, sanitize
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection
from preflight import regex as re

TIMEOUT_S = 60.0
_ABSENT = 127
_NO_SLURM = "load the site's Slurm module, or go to a login node (`which srun` must find it)"
_PING = "is the controller up, or only busy? `scontrol ping` says so"
NO_CLUSTER = "configuration source"  # in what Slurm's commands say on a machine that belongs to no cluster
_REMEDIES = (
    (
        NO_CLUSTER,
        "this machine is not in the cluster: use a login node, or name the site's slurm.conf in SLURM_CONF",
    ),
    ("contact slurm controller", _PING),
    ("socket timed out", _PING),
    ("invalid account", "`sacctmgr show assoc user=$USER` lists your accounts and partitions"),
    ("munge", "munge must run on this machine with the cluster's key: `munge -n | unmunge` says so"),
)
_PREFIX = re.compile(r"^\w+: (?:error: )?", re.MULTILINE)
OURS = ("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_CONF", "SLURM_CLUSTERS", "SLURM_CLUSTER_NAME", "SLURM_JOB_NAME")
"""What says which job of which cluster is meant."""
NODE_VARIABLES = (
    "SLURM_SUBMIT_",
    "SLURM_ARRAY_",
    "SLURM_RESTART_COUNT",
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_END_TIME",
)
"""What scripts read and srun does not."""
_OF_LOGIN = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
"""sbatch and salloc pass them on: they name addresses of the login node, which the agent would take for those
of its own node."""
_INPUT = ("SLURM_", "SRUN_", "SALLOC_", "SBATCH_", "PMI_", "PMI2_", "PMIX_")


def open_local_commands(environ: Mapping[str, str] = os.environ) -> Connection:
    """Return where Slurm's commands run by default: this machine, with this environment.

    Raises BadInput where SLURM_CONF names no file: each of them would look for it for a minute.
    """
    conf = environ.get("SLURM_CONF", "")
    if conf and not os.path.exists(conf):  # noqa: PTH110 - Path raises where a folder may not be searched
        raise BadInput(f"SLURM_CONF is {one_line(conf)}: no such file", f"unset SLURM_CONF, or {_NO_SLURM}")
    return LocalConnection(Endpoint(LOCALHOST, "local", ""), {**environ, "LC_ALL": "C"})


def run_slurm(
    connection: Connection, argv: Sequence[str], *, text: str = "", timeout_s: float = TIMEOUT_S
) -> str:
    """Return what a command of Slurm prints. Raises BadInput where there is none, and SlurmError."""
    try:
        done = connection.run(argv, stdin=text.encode(), timeout_s=timeout_s)
    except CommandTimedOut:
        raise SlurmSilent(f"{argv[0]} has not answered within {timeout_s:g} s", _PING) from None
    if done.exit_status == _ABSENT:
        raise explain_missing_command(argv[0])
    if done.exit_status:
        said = strip_command_name(done.stderr or done.stdout) or f"exit status {done.exit_status}"
        fix = next((fix for words, fix in _REMEDIES if words in said.lower()), "")
        raise (SlurmSilent if fix == _PING else SlurmError)(f"{argv[0]}: {said}", fix)
    return done.stdout.decode("utf-8", "replace")


def explain_missing_command(name: str) -> BadInput:
    """Return the error for a command of Slurm that is not on the PATH."""
    return BadInput(f"the PATH has no command {name}", _NO_SLURM)


def strip_command_name(output: bytes) -> str:
    """Return the last lines of what a command of Slurm said, without its name before each."""
    lines = [line.strip() for line in _PREFIX.sub("", sanitize(output)).splitlines() if line.strip()]
    return one_line("; ".join(lines[-3:]), 300)


def step_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for srun without the variables of an outer step, which srun takes for options.

    Inside a step SLURM_NNODES is that step's (1, say), and limits every step that is started from it;
    SLURM_MEM_PER_CPU, SLURM_CPU_BIND and their like do so too (man srun, "INPUT ENVIRONMENT VARIABLES").
    """
    return {
        name: value
        for name, value in environ.items()
        if name not in _OF_LOGIN
        and (not name.startswith(_INPUT) or name in OURS or name.startswith(NODE_VARIABLES))
    }
