"""The tree of a host's processes, and what each one is. Pure."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.host import Process, ProcessTable
from preflight.facts.missing import Missing
from preflight.frozen import dataclass

INIT_PID = 1

# What belongs to the machine and never to a job, of any owner.
SYSTEM_NAMES = frozenset(
    {
        "Xorg", "Xwayland", "X", "gnome-shell", "kwin_x11", "kwin_wayland", "plasmashell", "sway",
        "gdm-x-session", "sddm", "lightdm", "nvidia-persistenced", "nv-hostengine", "nv-fabricmanager",
        "dcgm-exporter", "dcgmproftester", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-smi",
        "gpud", "containerd", "containerd-shim", "dockerd", "slurmd", "slurmstepd", "systemd",
        "systemd-logind", "dbus-daemon", "sshd", "sshd-session",
    }
)  # fmt: skip

_MULTIPLEXERS = ("tmux", "screen", "zellij", "dtach", "abduco", "mosh-server", "byobu")

# argv words that make a process a launcher of ranks, whatever runs above it.
_LAUNCHER_WORDS = re.compile(
    r"(^|/)(torchrun|accelerate|deepspeed|mpirun|mpiexec|orted|prterun|srun|horovodrun|colossalai|composer|torchrunx)$"
    r"|^(torch\.distributed\.(run|launch)|accelerate\.commands\.launch|deepspeed\.launcher\.(launch|runner))$"
    r"|/accelerate/commands/launch\.py$|/torch/distributed/(run|launch)\.py$"
)

_RANK_NAMES = ("TORCHELASTIC_RUN_ID", "LOCAL_RANK", "RANK")
_DATA_WORKER = "pt_data_worker"  # the name torch gives a DataLoader worker's main thread

# Linux keeps 15 characters of a process name.
COMM_LENGTH = 15
SYSTEM_COMMS = frozenset(name[:COMM_LENGTH] for name in SYSTEM_NAMES)

Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """A process table indexed by pid."""

    by_pid: dict[int, Process]

    @classmethod
    def of(cls, table: ProcessTable) -> "ProcessTree":
        """Index a table."""
        return cls({process.pid: process for process in table.processes})

    def is_alive(self, identity: Identity) -> bool:
        """Whether exactly this process (pid, start time) exists and is not dead."""
        process = self.by_pid.get(identity[0])
        return process is not None and process.start_ticks == identity[1] and not is_dead(process)

    def parent(self, process: Process) -> Process | None:
        """Return the real parent, or None: one that is younger than its child is a reused pid."""
        parent = self.by_pid.get(process.ppid)
        if parent is None or parent.pid == process.pid or parent.start_ticks > process.start_ticks:
            return None
        return parent

    def ancestors(self, process: Process) -> Iterator[Process]:
        """Yield parent, grandparent, ... up to the root; ends on a broken or circular chain."""
        seen = {process.pid}
        above = self.parent(process)
        while above is not None and above.pid not in seen:
            yield above
            seen.add(above.pid)
            above = self.parent(above)


def get_environ(process: Process) -> dict[str, str]:
    """Return the launch markers of a process, {} when they could not be read."""
    return {} if isinstance(process.environ, Missing) else process.environ


def get_argv(process: Process) -> tuple[str, ...]:
    """Return its command line, () when it could not be read."""
    return () if isinstance(process.argv, Missing) else process.argv


def get_gpu_files(process: Process) -> tuple[str, ...]:
    """Return its open GPU device files, () when they could not be read."""
    return () if isinstance(process.gpu_files, Missing) else process.gpu_files


def is_dead(process: Process) -> bool:
    """Return whether it is a true zombie: state Z or X and no other thread alive. It holds nothing."""
    return process.state in ("Z", "X") and process.threads <= 1


def is_half_dead(process: Process) -> bool:
    """Return whether its leader is dead while other threads live: it still holds every file."""
    return process.state in ("Z", "X") and process.threads > 1


def is_system(process: Process) -> bool:
    """Return whether it belongs to the machine: display server, driver daemon, container service."""
    return process.comm in SYSTEM_COMMS or process.pid == INIT_PID


def is_interactive(process: Process) -> bool:
    """Return whether a person may be working inside it: a terminal multiplexer, or a shell on a terminal."""
    if process.comm.split(":")[0] in _MULTIPLEXERS:
        return True
    return process.tty and process.comm.lstrip("-") in (
        *("bash", "zsh", "sh", "fish", "dash", "ksh", "tcsh", "csh"),
    )


def is_launcher(process: Process) -> bool:
    """Return whether its command line starts ranks (torchrun, accelerate launch, mpirun, srun, ...)."""
    return any(_LAUNCHER_WORDS.search(word) for word in get_argv(process)[:6])


def is_data_worker(process: Process) -> bool:
    """Return whether it is a DataLoader worker, which nothing but a live training process ever starts."""
    return process.comm == _DATA_WORKER


def is_elastic_rank(process: Process) -> bool:
    """Return whether torch elastic started it (or something it started did): it has a launcher or lost it."""
    return "TORCHELASTIC_RUN_ID" in get_environ(process) and not is_launcher(process)


def is_rank(process: Process) -> bool:
    """Return whether its environment says that it is a rank, by whatever launcher or by hand."""
    return any(name in get_environ(process) for name in _RANK_NAMES) and not is_launcher(process)
