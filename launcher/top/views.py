"""What the screen, the JSON document and the metrics show, as values. Pure."""

from typing import Literal

from preflight.frozen import dataclass
from preflight.leftovers.classify import ProcessClass

HostPhase = Literal["connecting", "live", "silent", "lost"]
"""Silent: connected, and its last answer is too old to be called the present."""

SERIOUS_THROTTLE = frozenset({"hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"})
"""Reasons that slow a GPU down against its owner's wish; a power cap at full load is the rule."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process on a GPU. `kind` None: only the driver names it, and nothing else can be known of it."""

    pid: int
    user: str  # "" where not known
    command: str
    age_s: float | None
    kind: ProcessClass | None
    used_mib: int | None
    run_id: str  # "" where it is of no run of gpulaunch
    mine: bool


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU; None where it does not report a value."""

    index: int
    uuid: str
    model: str
    busy_percent: float | None
    used_mib: float | None
    total_mib: float | None
    power_w: float | None
    power_limit_w: float | None
    temperature_c: float | None
    throttle: tuple[str, ...] | None
    holders: tuple[Holder, ...]
    claimed_by: tuple[str, str] | None  # user and run that have claimed it
    held: bool | None  # None: who holds it cannot be seen
    problem: str  # why it cannot be used, "" where nothing says so

    @property
    def free(self) -> bool:
        """Whether a launch would find it free: no process holds it, no run claims it, and that is known."""
        return self.held is False and self.claimed_by is None and not self.problem

    @property
    def mine(self) -> bool:
        """Whether a process of the login's own user is on it."""
        return any(holder.mine for holder in self.holders)

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs of gpulaunch on it."""
        held = [holder.run_id for holder in self.holders if holder.run_id]
        claimed = [self.claimed_by[1]] if self.claimed_by and self.claimed_by[1] else []
        return tuple(dict.fromkeys([*held, *claimed]))


@dataclass(frozen=True, slots=True)
class HostView:
    """One host. `age_s` is that of its last answer; None: it has not answered yet."""

    name: str
    phase: HostPhase
    age_s: float | None
    gpus: tuple[GpuView, ...]
    note: str  # why it is lost or its GPUs are missing, or what cannot be seen on it
    fix: str = ""  # what to do about a lost host
    retry_s: float | None = None  # until the next attempt to connect; None: no other one
    answers: bool = True  # so does its driver, for each of its GPUs, where it has one

    @property
    def current(self) -> bool:
        """Whether its numbers are those of now."""
        return self.phase == "live"

    @property
    def idle(self) -> bool:
        """Whether all of its GPUs are free: then one line is enough."""
        return self.current and bool(self.gpus) and all(gpu.free for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run of gpulaunch of the login's own user that lives on the hosts."""

    run_id: str
    state: str
    hosts: tuple[str, ...]
    gpu_count: int
    step: int | None
    steps: int | None
    loss: float | None
    eta_s: float | None
    output_age_s: float | None  # since its leading rank printed anything


@dataclass(frozen=True, slots=True)
class FleetView:
    """All hosts at one moment."""

    time_unix: float
    hosts: tuple[HostView, ...]
    runs: tuple[RunView, ...]
