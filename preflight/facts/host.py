"""What was read on a host, as frozen values; an absent value carries the reason it is absent.

The agent writes JSON whose keys are the field names below; `preflight.facts.json_codec` decodes it by these
annotations. Memory is in MiB (2**20 bytes), times in seconds, temperatures in degrees Celsius, speeds in
Mbit/s, each said in the field's name.
"""

from dataclasses import field
from typing import Literal

from preflight.facts.gpu import CudaStart, Driver, Gpu, GpuClaim, PciGpu
from preflight.facts.missing import Fact, Missing
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """Who and where: read with nothing but the standard library."""

    hostname: str
    boot_id: str
    uid: int
    user: str
    kernel: str
    now_unix: float  # the host's clock, for skew
    uptime_s: float
    container: str  # "" on a plain host, else what says so: "docker", "podman", "pid-namespace", "wsl2"
    initial_pid_namespace: bool  # False: NVML's pids may be another namespace's; never signal by them
    pid_namespace: str = ""  # inode, in which alone a pid means something; "": not known
    machine: str = ""  # as uname has it: "x86_64", "aarch64"
    time_namespace: str = ""  # inode, in which alone a start time does; "0": the kernel has none
    nvidia_module: str = ""  # version of the kernel module that is loaded; "": none is
    gpu_device_files: tuple[str, ...] = ()  # /dev/nvidia0 and its like


@dataclass(frozen=True, slots=True)
class PythonEnv:
    """The training environment's interpreter; versions come from package metadata, nothing is imported."""

    executable: str
    version: str
    packages: dict[str, str]  # distribution name, lower case -> version; absent key = not installed
    torch_cuda: Fact[str]  # CUDA build of the torch wheel: "12.8", "cpu", "rocm6.2"
    nccl: Fact[str]  # version of the NCCL that torch will load, from its package metadata
    managed: bool = False  # the system's own Python, into which pip installs nothing (PEP 668)
    accelerate_config: Fact[str] = ""  # text of accelerate's default config file; "" = the user has none
    # That the script imports unconditionally, and that neither it nor this interpreter has.
    absent_modules: Fact[tuple[str, ...]] = Missing("the answer does not hold it", "not-asked")
    absent_installers: tuple[str, ...] = ()  # of pip and ensurepip, those that it cannot import
    # Services that need no login of the user (any more), and gated repositories that are in the cache.
    logins: Fact[tuple[str, ...]] = Missing("the answer does not hold it", "not-asked")
    login_services: tuple[str, ...] = ("wandb", "huggingface")  # looked for; the default: before it was said
    packages_stamp: str = ""  # changes with every change of `packages`; "": that is not certain


@dataclass(frozen=True, slots=True)
class Process:
    """A process on the host. Identity is (pid, start_ticks), never pid alone.

    The agent sends those that matter: GPU holders, ranks, launchers, DataLoader workers, zombies, stopped
    ones, holders of asked-for ports, every ancestor and child of these, the command that an init such as tini
    runs, and every live process that one of them names in GPULAUNCH_SUPERVISOR
    (preflight/probes/supervisor_mark.py). So a supervisor of the agent's own
    PID namespace that has neither a row nor a place in `unread` is gone.
    """

    pid: int
    start_ticks: int  # /proc/PID/stat field 22, clock ticks since boot
    ppid: int
    uid: int
    user: str
    state: str  # one letter of /proc/PID/stat: R S D Z T t I X
    comm: str
    argv: Fact[tuple[str, ...]]
    age_s: float
    threads: int  # all tasks of the group; a zombie with threads > 1 is half dead and still holds its files
    tty: bool
    environ: Fact[dict[str, str]]  # only the names in agent.ENVIRON_KEYS: launch markers, never secrets
    gpu_files: Fact[tuple[str, ...]]  # open /dev/nvidia* and /dev/dri/* paths, over all live threads
    wchan: Fact[str]
    cpu_ticks: int  # utime + stime, for "does it still move"
    # Its pid in the agent's PID namespace first, in its own last; one alone: it is in the agent's own.
    namespace_pids: Fact[tuple[int, ...]] = Missing("the answer does not hold it", "not-asked")
    cwd: Fact[str] = Missing("the answer does not hold it", "not-asked")


@dataclass(frozen=True, slots=True)
class UnreadableProcess:
    """A process that exists, and of which the agent cannot say what matters."""

    pid: int
    user: str  # "" where that is not known either
    reason: str


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """Processes that matter, and who read them: psutil (not loaded where none matters), else /proc."""

    source: Literal["psutil", "proc"]
    processes: tuple[Process, ...]
    total: int  # all processes seen on the host
    agent_pid: int
    ancestors: tuple[int, ...]  # pids above the agent: never touched
    unread: tuple[UnreadableProcess, ...] = ()


@dataclass(frozen=True, slots=True)
class Socket:
    """A TCP socket on an asked-for port."""

    port: int
    address: str
    state: str  # LISTEN, ESTABLISHED, TIME_WAIT, BOUND (bound, not listening), ...
    uid: int
    pids: Fact[tuple[int, ...]]  # holders; Missing(no-permission) for other users' sockets without root
    user: str = ""  # the name of `uid`, its number where it has none; "" from agents that sent no names

    @property
    def owner(self) -> str:
        """The owner in words."""
        return f"uid {self.uid}" if self.user in ("", str(self.uid)) else self.user


@dataclass(frozen=True, slots=True)
class BindTest:
    """A real bind with SO_REUSEADDR on the wildcard of both families, as torch's store does it."""

    port: int
    ok: bool
    error: str


@dataclass(frozen=True, slots=True)
class Ports:
    """The state of the asked-for ports, and ports proven free that may be used instead, best first."""

    source: Literal["psutil", "proc"]
    sockets: tuple[Socket, ...]
    binds: tuple[BindTest, ...]
    free: tuple[int, ...]
    ephemeral: tuple[int, int]  # net.ipv4.ip_local_port_range, inclusive


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface with its addresses (no scope, no prefix)."""

    name: str
    addresses: tuple[str, ...]
    up: bool
    virtual: bool  # no device behind it in /sys: bridge, veth, docker0, tun
    mtu: int
    speed_mbps: Fact[int]

    @property
    def has_routable_address(self) -> bool:
        """Whether another host may reach an address of it: each one that is up has a link-local one."""
        return any(not address.lower().startswith(("fe80:", "169.254.")) for address in self.addresses)


@dataclass(frozen=True, slots=True)
class Network:
    """How the host sees itself on the network."""

    interfaces: tuple[Interface, ...]
    default_interface: Fact[str]
    own_name_addresses: Fact[tuple[str, ...]]  # what the host's own name resolves to on it
    ssh_server_address: Fact[str]  # the address this SSH connection came in on


@dataclass(frozen=True, slots=True)
class IbPort:
    """An InfiniBand or RoCE port of /sys/class/infiniband."""

    device: str
    port: int
    state: str  # "ACTIVE", "DOWN", ...
    rate_gbps: Fact[float]
    link_layer: str


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits and capacities of the user's session."""

    cpus: int
    memory_total_mib: int
    memory_available_mib: int
    memory_limit_mib: Fact[int]  # the cgroup's limit, when there is one
    swap_total_mib: int
    swap_used_mib: int
    load_1min: float
    shm_total_mib: Fact[int]
    shm_free_mib: Fact[int]
    memlock_kib: int  # -1 unlimited
    nofile: int  # soft limit; -1 unlimited
    nofile_hard: int


@dataclass(frozen=True, slots=True)
class PathFacts:
    """A path the job will use. `path` is as asked; `resolved` is absolute on the host.

    Of a file system that does not answer (a dead NFS server) every other fact is Missing with code "timeout".
    """

    role: Literal["workdir", "output", "hf_cache", "tmp", "script", "run_dir", "offload", "input"]
    path: str
    resolved: str
    exists: Fact[bool]
    writable: Fact[bool]  # the path, or the nearest parent that exists
    free_mib: Fact[int]
    total_mib: Fact[int]
    free_inodes_percent: Fact[float]
    filesystem: Fact[str]  # "ext4", "nfs4", "overlay", ...
    source: Fact[str]  # what is mounted at it: a device, server:/export
    read_only: bool = False  # the mount; False also where that was not read
    file_in_way: str = ""  # a file where a directory is wanted: the path, or the nearest parent that exists
    enterable: bool = True  # False: a directory that this user may not work in


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """The training script as it lies on the host."""

    path: str
    sha256: str
    size: int
    text: Fact[str]  # Missing when larger than the agent sends
    own_modules: tuple[str, ...] = ()  # that it imports and that lie beside it on the host


@dataclass(frozen=True, slots=True)
class Xid:
    """An NVIDIA error in the kernel log (`NVRM: Xid (PCI:...): CODE, ...`)."""

    code: int
    pci_bus_id: str
    at_uptime_s: Fact[float]
    text: str
    count: int = 1  # of this code on this GPU, up to this line: not all of many are kept


@dataclass(frozen=True, slots=True)
class KernelLog:
    """NVIDIA and OOM-killer lines, as far back as the source reaches: the journal to the last boot."""

    source: Literal["dmesg", "journal", "kmsg", "file"]
    xids: tuple[Xid, ...]
    oom_kills: tuple[str, ...]
    other: tuple[str, ...]  # peermem errors, "fallen off the bus", SXid, GSP time-outs


@dataclass(frozen=True, slots=True)
class System:
    """Services, modules and kernel settings that GPU jobs depend on."""

    modules: tuple[str, ...]  # loaded kernel modules that matter: nvidia, nouveau, nvidia_peermem, ...
    fabric_manager: Fact[str]  # "active", "inactive", ... ; Missing when there is no such unit
    persistence_daemon: Fact[str]
    mps_control: bool  # nvidia-cuda-mps-control is running
    acs_enabled: Fact[bool]
    iommu: Fact[str]
    hung: tuple[str, ...]  # processes in state D seen twice, "pid comm wchan"


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Everything the agent answered about one host, each part on its own or missing with its reason."""

    host: str
    agent_version: str
    identity: Fact[Identity]
    python: Fact[PythonEnv]
    driver: Fact[Driver]
    gpus: Fact[tuple[Gpu, ...]]
    pci_gpus: Fact[tuple[PciGpu, ...]]
    processes: Fact[ProcessTable]
    ports: Fact[Ports]
    network: Fact[Network]
    infiniband: Fact[tuple[IbPort, ...]]
    limits: Fact[Limits]
    paths: Fact[tuple[PathFacts, ...]]
    script: Fact[ScriptFacts]
    kernel_log: Fact[KernelLog]
    environ: Fact[dict[str, str]]  # CUDA_*, NCCL_*, PET_*, RANK, ...: what a launch on the host inherits
    system: Fact[System]
    probe_ms: dict[str, float]  # how long each probe took
    claims: Fact[tuple[GpuClaim, ...]] = Missing("the answer does not hold it", "not-asked")
    cuda: Fact[CudaStart] = Missing("the answer does not hold it", "not-asked")
    # What was not read again (--max-age): "gpus", "packages" -> seconds since it was. The client says so.
    reused: dict[str, float] = field(default_factory=dict)
    earlier_gpus: str = ""  # which launch of this client had GPUs on the host; the client says so, too

    @property
    def known_gpus(self) -> tuple[Gpu, ...]:
        """The GPUs, none where they could not be read; where that differs, look at `gpus`."""
        return () if isinstance(self.gpus, Missing) else self.gpus


NOT_LISTENING = "cannot listen on it"
"""In the error of a connect that was not tried: the port of the main host was taken meanwhile."""


@dataclass(frozen=True, slots=True)
class Reach:
    """One real TCP connect from a node to the main host, made by the node itself."""

    from_host: str
    to_host: str
    address: str
    port: int
    ok: bool
    error: str
    ms: float

    @property
    def port_was_taken(self) -> bool:
        """Whether the main host could not listen on its port, which it had found free before."""
        return NOT_LISTENING in self.error
