"""What the user wants to run: the yardstick that checks measure hosts against."""

import posixpath
from dataclasses import field
from typing import Any, Literal, TypeAlias

from preflight.frozen import dataclass

Precision: TypeAlias = Literal["no", "fp16", "bf16", "fp8"]
PRECISIONS: tuple[Precision, ...] = ("no", "fp16", "bf16", "fp8")  # by what a GPU must be able to do
PrecisionRequest: TypeAlias = Literal["auto", "no", "fp16", "bf16", "fp8"]

GpuRequest: TypeAlias = Literal["all", "none", "auto"] | int | tuple[int | str, ...]
"""All GPUs of a host, CPU ranks, a count per host, or a list of indices and UUIDs.

"auto" is all GPUs when any host of the launch has one, else CPU ranks; `resolve_gpus` of
preflight.decide.gpu_signs turns it into "all" or "none" once the hosts have answered.
"""

GuardPolicy: TypeAlias = Literal["stop", "warn", "off"]

DEFAULT_MAIN_PORT = 29500


def anchor_at_home(path: str) -> str:
    """Return a path on a host with its `~`: a relative one is below the home, whatever the client's is."""
    return path if not path or path.startswith(("/", "~")) else posixpath.join("~", path)


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """What checks and decisions need to know of the engine that starts the ranks."""

    name: str
    packages: tuple[str, ...]  # distributions that every host must have installed
    sets_precision: bool = True  # False: only a script that uses accelerate gets its mixed precision
    once_per_host: bool = False  # a command of the user's is started once per host, and starts the ranks


@dataclass(frozen=True, slots=True)
class CommandRequest:
    """What a command such as `torchrun --nproc_per_node 4 train.py` asks for, beyond keys of a run config."""

    # A program that is not a Python script: started as it is, in place of `python SCRIPT`.
    executable: str = ""
    ranks_per_host: int | dict[str, int] | None = None  # at most; fewer where fewer GPUs are free
    host_gpus: dict[str, tuple[int, ...]] = field(default_factory=dict)  # of these hosts only these GPUs
    exclude_gpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    launcher_args: tuple[str, ...] = ()  # options for the engine's launcher, which the plan leaves alone
    launched_by: str = ""  # what starts the ranks in the command that was pasted: "deepspeed"; "" = none was
    options_at: int | None = None  # in the job's args, where the executable takes torchrun's options
    local_rank_option: str = ""  # "--local_rank": each rank's script gets it first, with its local rank
    precision_option: str = ""  # as Fabric's command spells it: "bf16-mixed"
    rendezvous_timeout: int = 0  # seconds; 0: the engine's own
    unset: tuple[str, ...] = ()  # variables of the host that the ranks do not inherit
    spelled: dict[str, str] = field(default_factory=dict)  # field -> the option that asked for it

    def ranks_wanted(self, host: str) -> int | None:
        """Return how many ranks the host should have at most, None for one on each GPU."""
        if isinstance(self.ranks_per_host, dict):
            return self.ranks_per_host.get(host)
        if self.ranks_per_host is None and host in self.host_gpus:
            return len(self.host_gpus[host])
        return self.ranks_per_host

    def passes_filters(self, host: str, index: int) -> bool:
        """Return whether the filters by host leave a GPU, by its index."""
        return index in self.host_gpus.get(host, (index,)) and index not in self.exclude_gpus.get(host, ())

    def option(self, name: str, default: str) -> str:
        """Return what people call this field in messages: the option that they typed, or `default`."""
        return self.spelled.get(name, default)


@dataclass(frozen=True, slots=True)
class DeepSpeedConfig:
    """The DeepSpeed config of a launch: a file, or the same said by keys of accelerate's config file."""

    source: str  # as people know it: "ds.json"
    text: str  # JSON, as it is written


@dataclass(frozen=True, slots=True)
class Job:
    """A validated run config: of `script`, `module` or `command.executable`, or hosts to judge only."""

    name: str = ""
    script: str = ""  # path on the hosts, relative to the directory that the ranks start in
    module: str = ""  # python -m MODULE
    typed: tuple[str, ...] = ()  # the words of the command that launches it; (): none does yet
    command: CommandRequest = CommandRequest()  # where the run was given as the command that starts it today
    args: tuple[str, ...] = ()
    send_script: bool = False  # the script is beside the local config and travels with the launch
    engine: EngineTraits | None = None  # None: chosen from the script once it is read
    uses_torch: bool = True  # False: reading the script has shown that nothing in it does
    gpus: GpuRequest = "all"
    gpus_by_auto: bool = False  # `gpus` was "auto", and is settled by what the hosts have
    processes_per_host: int | dict[str, int] | None = None  # only with gpus: none; by host where they differ
    precision: PrecisionRequest = "auto"
    precision_args: dict[str, tuple[str, ...]] = field(default_factory=dict)
    main_port: int = DEFAULT_MAIN_PORT
    env: dict[str, str] = field(default_factory=dict)
    receives_tree: bool = False  # a sync is to write the working directory before the launch
    workdir: str = ""  # "" = the host's own, else the user's home (localhost: the current directory)
    subdirectory: str = ""  # that the ranks start in (`cd DIR && ...`), from `workdir`; "" = `workdir` itself
    output: str = ""  # where the script writes, relative to the directory that the ranks start in
    guard: GuardPolicy = "stop"  # what is done about what cannot train
    hang_timeout: float = 0.0  # seconds without a sign of life until the run is ended; 0: it is only reported
    local_inputs: tuple[str, ...] = ()  # paths in the arguments that exist on this machine
    tree_is_sent: bool = False  # and the sync that has sent the tree has said what else brings them
    logins: dict[str, str] = field(default_factory=dict)  # host -> `ssh OPTIONS HOST`, where it is known
    restarts: int = 0  # at most, of a run that failed
    resumes: bool = False  # a restart gets arguments by which the script continues from a checkpoint
    batch_args: dict[str, str] = field(default_factory=dict)  # "batch", "accumulation" -> the script's option
    rehearse_args: tuple[str, ...] = ()  # added in a rehearsal; {scratch} is its own directory
    rehearse_steps: int = 0  # 0: a real run
    accelerate_config: dict[str, Any] | None = None  # keys of the user's config file for it; None: none named
    launcher_files: tuple[tuple[str, str], ...] = ()  # that these keys name: name in the run directory, text
    launcher_notes: tuple[str, ...] = ()  # keys that the plan replaces, a sentence each
    deepspeed: DeepSpeedConfig | None = None  # None: there is none, or it does not lie on this machine

    def cpu_ranks(self, host: str) -> int:
        """Return how many ranks a host gets where they run on the CPU; 0: the mapping does not name it."""
        if isinstance(self.processes_per_host, dict):
            return self.processes_per_host.get(host, 0)
        return self.processes_per_host or 1

    def directory_in(self, workdir: str) -> str:
        """Return where the ranks start on a host with this working directory; "" is the home."""
        place = anchor_at_home(self.workdir or workdir)
        return posixpath.join(place or "~", self.subdirectory) if self.subdirectory else place

    @property
    def script_in_tree(self) -> str:
        """The path of the script, relative to the working directory; "" where there is none."""
        return posixpath.normpath(posixpath.join(self.subdirectory, self.script)) if self.script else ""

    def output_in(self, workdir: str) -> str:
        """Return where the script writes on a host with this working directory, "" when it is not said."""
        if not self.output or self.output.startswith("~"):
            return self.output
        return posixpath.join(workdir, self.output)

    def inherits(self, name: str) -> bool:
        """Return whether ranks get a variable as the host has it: this job neither sets nor removes it."""
        return name not in self.env and name not in self.command.unset

    @property
    def wants_gpus(self) -> bool:
        """Whether any rank of this job runs on a GPU; "auto" counts as yes until it is resolved."""
        return self.gpus != "none"


@dataclass(frozen=True, slots=True)
class Expect:
    """Site expectations and thresholds (hosts.yaml `expect:`), so that no number is buried in a check."""

    gpus: int | None = None  # how many GPUs the host should have
    driver: str = ""  # PEP 440 specifier for the driver version, e.g. ">=570"
    memory_in_use_mib: int = 1024  # more than this on a GPU without a process to explain it is unexplained
    shm_mib_per_rank: int = 1024
    disk_free_percent: float = 5.0
    temperature_margin_c: int = 5
    clock_skew_s: float = 5.0
    nofile: int = 4096
    disk_free_mib: int = 2048  # less than this is short whatever the percentage
    free_inodes_percent: float = 2.0
    memory_available_percent: float = 5.0
    swap_used_percent: float = 50.0
    load_per_cpu: float = 1.5
    retired_pages: int = 10
    nvlink_errors: int = 0
    recent_xid_s: float = 7200.0  # an Xid that does not alone condemn the GPU is reported for this long
    fatal_xids: tuple[int, ...] = (46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 158)
    program_xids: tuple[int, ...] = (11, 13, 25, 31, 43, 45, 69, 137)  # usually its own fault, or its end
    stopped_s: float = 600.0  # a stopped process older than this is half dead
    gemm_tflops: float | None = None  # measured floors, for the deep checks
    memory_gbs: float | None = None
    h2d_gbs: float | None = None
    allreduce_gbs: float | None = None
