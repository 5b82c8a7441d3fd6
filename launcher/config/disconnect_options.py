"""What a run does once its client is gone: terminal closed, laptop asleep, link lost."""

from typing import Literal, TypeAlias

from launcher.config.before_stop_options import RANK_0, BeforeStop
from preflight.frozen import dataclass

DisconnectPolicy: TypeAlias = Literal["continue", "stop"]
POLICIES: tuple[DisconnectPolicy, ...] = ("continue", "stop")

DEFAULT_GRACE_S = 10.0  # from SIGTERM to SIGKILL of a stop: time for a last checkpoint
MAX_GRACE_S = 86400.0
DEFAULT_TIMEOUT_S = 600.0
MIN_TIMEOUT_S = 3.0  # a client that lives is heard once a second
STEP_TIMEOUT_S = 60.0  # a node that is not heard in its step for so long is given up, and ends itself
START_TIMEOUT_S = 30.0  # a run that only some nodes have started ends after so long, whatever the policy
LATE_START_S = 10.0  # after a request whose answer was lost, a slow disk may still start the run


@dataclass(frozen=True, slots=True)
class DisconnectOptions:
    """`on_disconnect`, `disconnect_timeout` and `grace` of a run.

    The timeout is how long hosts wait for a client before they stop a run (policy stop), and how long a
    client that is awake waits for hosts of which none answers any more.
    """

    policy: DisconnectPolicy = "continue"
    timeout_s: float = DEFAULT_TIMEOUT_S
    grace_s: float = DEFAULT_GRACE_S
    before_stop: BeforeStop | None = None
    slurm_job: str = ""  # the job that the run is a step of: it ends with its client, and with the job

    @property
    def stop_s(self) -> float:
        """How long a run has that a person, a lost client or a scheduler stops, before SIGKILL."""
        return self.grace_s + (self.before_stop.wait_s if self.before_stop is not None else 0.0)

    @property
    def after_main_s(self) -> float | None:
        """How long other hosts have once the main one has ended, where rank 0 alone saves."""
        rank_0 = self.before_stop is not None and self.before_stop.ranks == RANK_0
        return self.grace_s if rank_0 else None

    @property
    def stop_text(self) -> str:
        """How such a run is stopped, in words."""
        first = f"{self.before_stop.text}, then " if self.before_stop is not None else ""
        return f"{first}SIGTERM, {self.grace_s:g} s, SIGKILL"

    @property
    def continues(self) -> bool:
        """Whether the run continues without a client, once all of its nodes have started."""
        return self.policy == "continue"

    @property
    def host_timeout_s(self) -> float:
        """How long a host continues without a client until it has the order to continue for good."""
        return START_TIMEOUT_S if self.continues else self.timeout_s


ATTENDED = DisconnectOptions("stop", 60.0)  # a rehearsal or measurement is for its client alone

CtrlC: TypeAlias = Literal["stops the run", "leaves the run, which continues", "asks: stop, detach or stay"]


def describe_disconnect(disconnect: DisconnectOptions, run_id: str, *, ctrl_c: CtrlC, remote: bool) -> str:
    """Return in one line what Ctrl-C, a closed terminal and a lost link do."""
    if disconnect.slurm_job:
        return "the run is a step of this Slurm job: Ctrl-C, the end of this process or of the job ends it"
    if disconnect.continues:
        link = " or the link is lost" if remote else ""
        return f"Ctrl-C {ctrl_c}; if this terminal closes{link}, the run continues: gpulaunch attach {run_id}"
    link = f", and so does a link that is lost for {disconnect.timeout_s:g} s" if remote else ""
    return f"Ctrl-C {ctrl_c}; closing this terminal stops it{link} (on_disconnect: stop)"
