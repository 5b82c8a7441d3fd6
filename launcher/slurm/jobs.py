"""What is done to a job of Slurm from outside."""

import time

from launcher.slurm.allocation import job_state
from launcher.slurm.commands import local_commands, run_slurm

_LIVES = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "CONFIGURING")
_WAITS = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")
_ASK_EVERY_S = 0.5


def cancel_job(job: str) -> None:
    """Cancel a job. Raises SlurmError."""
    run_slurm(local_commands(), ("scancel", job))


def cancel_waiting(job: str) -> bool:
    """Cancel a job that has not started; return whether it was one. Raises SlurmError."""
    state, _ = job_state(job)
    if state not in _WAITS:
        return False
    run_slurm(local_commands(), ("scancel", "--state=PENDING", job))
    return True


def await_end(job: str, timeout_s: float) -> bool:
    """Wait for a job's end; return whether it has ended."""
    deadline = time.monotonic() + timeout_s
    while job_state(job)[0] in _LIVES:
        if time.monotonic() > deadline:
            return False
        time.sleep(_ASK_EVERY_S)
    return True
