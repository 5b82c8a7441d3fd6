"""The first start of a job that Slurm has started again: it continues from the job's own checkpoint."""

import time
from collections.abc import Callable
from dataclasses import replace

from launcher.config.restart_options import RestartOptions
from launcher.errors import LaunchRefused
from launcher.launch.launch import CheckedLaunch
from launcher.restart.checkpoints import choose_checkpoint, list_checkpoints, resume_args


def resume_after_requeue(
    prepared: CheckedLaunch, spec: RestartOptions, began: float, say: Callable[[str], None]
) -> CheckedLaunch:
    """Return the launch with the arguments that resume it. `began`: when the job began the first time.

    Raises HostError of a host that cannot be asked, and LaunchRefused where hosts have different checkpoints.
    """
    launch = prepared.launch
    writers = launch.entries if spec.checkpoint_on == "every" else launch.entries[:1]
    age_s = time.time() - began
    seen = list_checkpoints(writers, launch.job, spec.checkpoints, launch.connections.borrow, age_s=age_s)
    chosen = choose_checkpoint(seen, launch.entries[0].name, spec)
    for note in chosen.notes:
        say(note)
    if chosen.refused:
        raise LaunchRefused(chosen.refused)
    if chosen.checkpoint is None:
        say("Slurm has started this job again; there is no checkpoint of it yet: it starts anew")
        return prepared
    say(f"Slurm has started this job again; it continues from {chosen.checkpoint.path}")
    job = replace(launch.job, args=resume_args(launch.job, spec, chosen.checkpoint))
    return replace(prepared, launch=replace(launch, job=job))
