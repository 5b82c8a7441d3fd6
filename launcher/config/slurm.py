"""What gpulaunch says inside a Slurm allocation, from the variables that salloc and sbatch set."""

import os
from collections.abc import Mapping, Sequence

from launcher.config.inventory import HostEntry


def unused_nodes(entries: Sequence[HostEntry], environ: Mapping[str, str] = os.environ) -> str:
    """Return a word on an allocation of which only this node is used, "" where that is not so."""
    nodes = environ.get("SLURM_JOB_NODELIST", "")
    count = environ.get("SLURM_JOB_NUM_NODES", "")
    if not nodes or not count.isdecimal() or int(count) < 2 or not all(each.is_local for each in entries):
        return ""
    return f"Slurm job {environ.get('SLURM_JOB_ID', '?')} has {count} nodes; all of them: --hosts '{nodes}'"
