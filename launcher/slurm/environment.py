"""The variables of Slurm: which of ours the programs of Slurm may see."""

from collections.abc import Mapping

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
