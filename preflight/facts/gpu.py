"""What was read of a host's GPUs and their driver; units as in `preflight.facts.host`."""

from typing import Literal, TypeAlias

from preflight.facts.missing import Fact, Missing
from preflight.frozen import dataclass

Capability: TypeAlias = tuple[int, int]  # compute capability (major, minor), e.g. (8, 9) for an L40S.

ComputeMode: TypeAlias = Literal["default", "exclusive_process", "prohibited", "exclusive_thread"]


@dataclass(frozen=True, slots=True)
class Driver:
    """The kernel driver as NVML or nvidia-smi names it."""

    version: str
    cuda_version: Fact[str]  # newest CUDA the driver supports, e.g. "13.0"
    source: Literal["nvml", "nvidia-smi", "file"]


@dataclass(frozen=True, slots=True)
class CudaStart:
    """What libcuda answered a process that started it as a rank does: cuInit, then the list of GPUs."""

    library: str  # the name that the loader found, or the path where only that was found
    code: int  # CUresult of the first call that failed; 0: CUDA starts
    error: str  # its name and words; "" for 0
    uuids: tuple[str, ...]  # of the GPUs, in CUDA's order; with MIG, of the first instance alone


@dataclass(frozen=True, slots=True)
class GpuMemory:
    """NVML memory v2: `used_mib` excludes `reserved_mib`; v1 counts it as used (reserved Missing)."""

    total_mib: Fact[int]
    used_mib: int
    free_mib: Fact[int]
    reserved_mib: Fact[int]


@dataclass(frozen=True, slots=True)
class Ecc:
    """ECC state; counts are bit errors. Volatile counts start at the last driver load."""

    enabled: bool
    corrected_volatile: Fact[int]
    uncorrected_volatile: Fact[int]
    uncorrected_aggregate: Fact[int]


@dataclass(frozen=True, slots=True)
class RowRemap:
    """Remapped memory rows (Ampere and later data-centre GPUs)."""

    correctable: Fact[int]
    uncorrectable: Fact[int]
    pending: Fact[bool]  # known, and `failed` too, unless the other one is True
    failed: Fact[bool]


@dataclass(frozen=True, slots=True)
class RetiredPages:
    """Retired memory pages (before Ampere)."""

    single_bit: int
    double_bit: int
    pending: Fact[bool]


@dataclass(frozen=True, slots=True)
class PcieLink:
    """PCIe link; an idle GPU shows a lower current generation than its maximum, and that is normal."""

    generation: int
    generation_max: int
    width: int
    width_max: int


@dataclass(frozen=True, slots=True)
class NvLink:
    """One NVLink of a GPU; errors are summed over the error counters NVML gives."""

    link: int
    active: bool
    errors: Fact[int]


@dataclass(frozen=True, slots=True)
class Fabric:
    """NVSwitch fabric registration (`nvmlDeviceGetGpuFabricInfoV`)."""

    state: Literal["not_supported", "not_started", "in_progress", "completed"]
    status: str  # "success" or NVML's error words


@dataclass(frozen=True, slots=True)
class ComputeProcess:
    """A process the driver lists on a GPU. In a container the pid may belong to another namespace."""

    pid: int
    kind: Literal["compute", "graphics", "mps"]
    used_mib: Fact[int]
    name: Fact[str]


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. A lost GPU has `uuid` and everything else Missing with code "gpu-lost"."""

    index: int  # NVML number, PCI bus order
    uuid: Fact[str]
    name: Fact[str]
    pci_bus_id: Fact[str]
    minor: Fact[int]  # N of /dev/nvidiaN; not always the index
    capability: Fact[Capability]
    compute_mode: Fact[ComputeMode]
    memory: Fact[GpuMemory]
    processes: Fact[tuple[ComputeProcess, ...]]
    utilization_percent: Fact[int]
    persistence: Fact[bool]
    mig_enabled: Fact[bool]
    ecc: Fact[Ecc]
    remap: Fact[RowRemap]
    retired_pages: Fact[RetiredPages]
    temperature_c: Fact[int]
    temperature_slowdown_c: Fact[int]
    throttle: Fact[tuple[str, ...]]  # active reasons: "idle", "sw_power_cap", "hw_slowdown", "hw_thermal"
    power_w: Fact[float]
    power_limit_w: Fact[float]
    clock_sm_mhz: Fact[int]
    clock_sm_max_mhz: Fact[int]
    pcie: Fact[PcieLink]
    nvlinks: Fact[tuple[NvLink, ...]]
    fabric: Fact[Fabric]
    recovery_action: Fact[str]  # "none", "gpu_reset", "node_reboot", "drain_p2p", "drain_and_reset", ...
    processes_cut: str = ""  # why a saved file lists some of `processes` alone

    @property
    def total_mib(self) -> int | None:
        """Its memory, None where that is not known."""
        total = self.memory if isinstance(self.memory, Missing) else self.memory.total_mib
        return None if isinstance(total, Missing) else total

    @property
    def used_mib(self) -> int | None:
        """How much of its memory is in use, None where that is not known."""
        return None if isinstance(self.memory, Missing) else self.memory.used_mib

    @property
    def device_file(self) -> str:
        """Its file in /dev, by its index where its minor number is not known."""
        return f"/dev/nvidia{self.index if isinstance(self.minor, Missing) else self.minor}"

    @property
    def needs_no_recovery(self) -> bool:
        """Whether the driver says so; those before 570 say nothing."""
        return isinstance(self.recovery_action, str) and self.recovery_action.lower() == "none"


@dataclass(frozen=True, slots=True)
class PciGpu:
    """An NVIDIA display controller on the PCI bus, seen without the driver."""

    bus_id: str
    device_id: str
    driver: Fact[str]  # "nvidia", "nouveau", "vfio-pci"


@dataclass(frozen=True, slots=True)
class GpuClaim:
    """A GPU that a live run of gpulaunch holds, of any user; the claim's file is locked by its owner."""

    gpu_uuid: str
    run_id: str  # "" when the claim does not say
    user: str  # the file's owner: what the claim itself says is not asked
    uid: int
    pid: int
    since_unix: float


def normalize_bus_id(bus_id: str) -> str:
    """Return a form in which "00000000:65:00.0", "0000:65:00.0" and "0000:65:00" are equal, "" for no bus."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain.lstrip('0')}:{rest.partition('.')[0]}" if rest else ""
