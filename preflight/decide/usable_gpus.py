"""Which of a host's GPUs a job may use, and how many of them it needs."""

from collections.abc import Iterable

from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.job import GpuRequest, Job


@dataclass(frozen=True, slots=True)
class GpuSelection:
    """The GPUs a job may use on one host. A bad candidate stops a launch unless enough others remain.

    `not_found` are the indices and UUIDs that were named (in the job or in hosts.yaml) and do not exist.
    """

    candidates: frozenset[int]
    needed: int
    not_found: tuple[int | str, ...] = ()


def select_gpus(facts: HostFacts, job: Job, allowed: GpuRequest = "all") -> GpuSelection:
    """Return what `job` wants of the host's GPUs; `allowed` are the GPUs that hosts.yaml lets anybody use.

    "all" means all of them: a sick one is not left out silently. Only a GPU in Prohibited mode is, since
    an administrator has set it to be not for compute.
    """
    if isinstance(facts.gpus, Missing) or not job.wants_gpus or allowed == "none":
        return GpuSelection(frozenset(), 0)
    permitted, unlisted = _named(facts.gpus, allowed)
    permitted = [gpu for gpu in permitted if job.command.passes_filters(facts.host, gpu.index)]
    if isinstance(job.gpus, tuple):
        chosen, absent = _named(permitted, job.gpus)
        indices = frozenset(gpu.index for gpu in chosen)
        return GpuSelection(indices, len(indices), (*unlisted, *absent))
    prohibited = frozenset(gpu.index for gpu in permitted if gpu.compute_mode == "prohibited")
    usable = frozenset(gpu.index for gpu in permitted) - prohibited or prohibited
    needed = job.gpus if isinstance(job.gpus, int) else len(usable)
    if job.command.ranks_wanted(facts.host) is not None and not isinstance(job.gpus, int):
        needed = min(1, len(usable))  # the plan takes what is free, and says so
    return GpuSelection(usable, needed, unlisted)


def _named(gpus: Iterable[Gpu], request: GpuRequest) -> tuple[list[Gpu], tuple[int | str, ...]]:
    """Return the GPUs that a request names, and the words that name none."""
    present = sorted(gpus, key=lambda gpu: gpu.index)
    if isinstance(request, int):
        return present[:request], ()
    if not isinstance(request, tuple):
        return present, ()
    chosen = [gpu for gpu in present if any(is_called(gpu, word) for word in request)]
    return chosen, tuple(word for word in request if not any(is_called(gpu, word) for gpu in present))


def is_called(gpu: Gpu, word: int | str) -> bool:
    """Return whether an index, a UUID or the start of one names this GPU."""
    if isinstance(word, int) or word.isdigit():
        return gpu.index == int(word)
    return isinstance(gpu.uuid, str) and bool(word) and gpu.uuid.startswith(word)


def explain_unusable(gpu: Gpu) -> str:
    """Return why no launch takes a GPU, held or not; "" where nothing rules it out."""
    if isinstance(gpu.uuid, Missing):
        return f"has no readable UUID ({gpu.uuid.reason})"
    for value in (gpu.memory, gpu.name, gpu.capability):
        if isinstance(value, Missing) and value.code in ("gpu-lost", "reset-required"):
            return value.reason
    if gpu.recovery_action in ("gpu_reset", "node_reboot", "drain_and_reset"):
        return f"needs recovery: {str(gpu.recovery_action).replace('_', ' ')}"
    if gpu.compute_mode == "prohibited":
        return "is in Prohibited compute mode, which refuses every process"
    if gpu.mig_enabled is True:
        return "is split by MIG: NCCL cannot join slices of it"
    return ""


def explain_busy(gpu: Gpu) -> str:
    """Return by which processes a GPU is held, "" where none computes on it."""
    listed = () if isinstance(gpu.processes, Missing) else gpu.processes
    pids = [str(process.pid) for process in listed if process.kind == "compute"]
    return f"is held by pid {', '.join(pids)}" if pids else ""
