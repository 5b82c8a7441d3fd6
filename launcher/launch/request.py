"""What is to be launched, as one value."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from launcher.config.disconnect_options import DisconnectOptions
from launcher.config.inventory import HostEntry
from launcher.follow.detach_policy import NO_WORLD_TIMEOUT_S
from launcher.follow.job_end import JobEndNotice
from launcher.follow.phases import Phase
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.launch.signals import InterruptChoice
from launcher.planning.main_address_and_port import choose_main_address
from launcher.planning.plan import RestartSpec
from launcher.remote.connection_pool import ConnectionPool
from launcher.remote.reachability import StartProgram, probe_reachability
from preflight.facts.host import HostFacts, Reach
from preflight.frozen import dataclass
from preflight.job import Job


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """How a run is followed, and its disconnect policy."""

    disconnect: DisconnectOptions = DisconnectOptions()
    # Asks at a terminal what Ctrl-C shall do; None: it stops.
    choose: Callable[[], InterruptChoice] | None = None
    # What SIGTERM and SIGUSR1 do, and a Ctrl-C at a terminal that the next signal has overtaken.
    unasked: InterruptChoice = "stop"
    logs: Path = Path("gpulaunch-runs")
    all_ranks: bool = False  # every line of every rank, of however many
    detach: bool = False  # leave the run once its ranks are as planned
    keeps_record: bool = True  # on this machine, for its own later commands
    quiet_s: float = NO_WORLD_TIMEOUT_S  # how long ranks that set up no world are waited for before that
    on_start: Callable[[str], None] | None = None  # takes the run id of each start that later commands find


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What is to be launched, and how it is followed."""

    entries: tuple[HostEntry, ...]
    job: Job
    connections: ConnectionPool
    preflight: PreflightOptions = PreflightOptions()  # how the hosts are asked and judged before it
    follow: FollowOptions = FollowOptions()
    identity_file: str = ""  # the key that was named for all hosts: what finds the run later needs it again
    job_notice: JobEndNotice | None = None  # in a Slurm job: whether Slurm has announced its end
    extra_files: tuple[tuple[str, str], ...] = ()  # (name, text) kept with the run, locally and on every host
    earlier_phases: tuple[Phase, ...] = ()  # what has taken time already
    resume_step: int = 0  # of the checkpoint that the script is to continue from; 0 or less: not known
    restart: RestartSpec | None = None  # how the run may be started again; None: not at all
    # Called with the run id once all hosts have started, with their claims taken.
    on_started: Callable[[str], None] | None = None

    def probe(
        self, order: Sequence[HostEntry], facts: Mapping[str, HostFacts], port: int, begin: StartProgram
    ) -> tuple[Reach, ...]:
        """Let every node connect to the main one, where the launch would meet."""
        address, _ = choose_main_address([(entry, facts[entry.name]) for entry in order])
        width = self.preflight.width
        return probe_reachability(order[0], order[1:], begin, address=address, port=port, width=width)
