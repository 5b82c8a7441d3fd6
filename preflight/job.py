"""What the user wants to run: the yardstick that checks measure hosts against."""

import posixpath
from dataclasses import field
from typing import Literal, TypeAlias

from preflight.frozen import dataclass

Precision: TypeAlias = Literal["no", "fp16", "bf16", "fp8"]
PrecisionRequest: TypeAlias = Literal["auto", "no", "fp16", "bf16", "fp8"]

GpuRequest: TypeAlias = Literal["all", "none", "auto"] | int | tuple[int | str, ...]
"""All GPUs of a host, CPU ranks, a count per host, or a list of indices and UUIDs.

"auto" is all GPUs when any host of the launch has one, else CPU ranks; `resolve_gpus` of
preflight.decide.ranks turns it into "all" or "none" once the hosts have answered.
"""

GuardPolicy: TypeAlias = Literal["stop", "warn", "off"]

DEFAULT_MAIN_PORT = 29500


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """What checks and decisions need to know of the engine that starts the ranks."""

    name: str
    packages: tuple[str, ...]  # distributions that every host must have installed
    sets_precision: bool = (
        True  # False: a script that uses no accelerate gets its mixed precision from no launch
    )


@dataclass(frozen=True, slots=True)
class Job:
    """A run config after validation: one of `script` and `module` is set, or neither to only judge hosts."""

    name: str = ""
    script: str = ""  # path on the hosts, relative to workdir
    module: str = ""  # python -m MODULE
    args: tuple[str, ...] = ()
    send_script: bool = False  # the script lies beside the config here and travels with the launch
    engine: EngineTraits | None = None  # None: chosen from the script once it is read
    gpus: GpuRequest = "all"
    processes_per_host: int | dict[str, int] | None = None  # only with gpus: none; by host where they differ
    precision: PrecisionRequest = "auto"
    precision_args: dict[str, tuple[str, ...]] = field(default_factory=dict)
    main_port: int = DEFAULT_MAIN_PORT
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""  # "" = the host's own, else the user's home (localhost: the current directory)
    output: str = ""  # where the script writes, relative to workdir
    guard: GuardPolicy = "stop"  # what is done about what cannot train
    hang_timeout: float = 0.0  # seconds without a sign of life until the run is ended; 0: it is only told
    batch_args: dict[str, str] = field(default_factory=dict)  # "batch", "accumulation" -> the script's option
    rehearse_args: tuple[str, ...] = ()  # added in a rehearsal; {scratch} is its own directory
    rehearse_steps: int = 0  # 0: a real run

    def cpu_ranks(self, host: str) -> int:
        """Return how many ranks a host gets where they run on the CPU; 0: the mapping does not name it."""
        if isinstance(self.processes_per_host, dict):
            return self.processes_per_host.get(host, 0)
        return self.processes_per_host or 1

    def output_in(self, workdir: str) -> str:
        """Return where the script writes on a host with this working directory, "" when it is not said."""
        if not self.output or self.output.startswith("~"):
            return self.output
        return posixpath.join(workdir, self.output)

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
    recent_xid_s: float = 7200.0  # an Xid that does not condemn the GPU by itself is told for this long
    fatal_xids: tuple[int, ...] = (48, 74, 79, 95, 119, 120, 140)  # the GPU needs a reset or a technician
    program_xids: tuple[int, ...] = (13, 31, 43, 45)  # usually a program's own fault, or its end
    stopped_s: float = 600.0  # a stopped process older than this is half dead
