"""The end of the Slurm job that a run is a step of, as Slurm announces it."""

from typing import Protocol

from preflight.frozen import dataclass

TIME_LIMIT = "SIGUSR1, the warning before the time limit of a job"
PREEMPTED = "Slurm preempts this job"


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The end of a job that Slurm has announced."""

    why: str  # TIME_LIMIT or PREEMPTED first, where that is the reason
    until: float = 0.0  # when Slurm kills what is left, by the wall clock; 0: not known

    @property
    def is_preemption(self) -> bool:
        """Whether a job of a better partition or QOS takes the nodes."""
        return self.why.startswith(PREEMPTED)


class JobEndNotice(Protocol):
    """Whether Slurm has announced the end of the job."""

    @property
    def heard_at(self) -> float:
        """When it did, by the wall clock; 0: it has not."""

    def read(self, timeout_s: float = 0.0) -> JobEnd | None:
        """Return what it has announced, None where nothing is known within that time."""
