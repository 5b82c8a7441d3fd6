"""Which of a host's GPUs a job may use, and how many of them it needs."""

from collections.abc import Iterable
from dataclasses import dataclass

from preflight.facts import Gpu, HostFacts, Missing
from preflight.job import GpuRequest, Job


@dataclass(frozen=True, slots=True)
class Selection:
    """The GPUs a job may use on one host. A bad candidate stops a launch unless enough others remain.

    `absent` are the indices and UUIDs that were named (in the job or in hosts.yaml) and are not there.
    `set_aside` are GPUs that an administrator keeps from compute (Prohibited) while others remain.
    """

    candidates: frozenset[int]
    needed: int
    absent: tuple[int | str, ...] = ()
    set_aside: frozenset[int] = frozenset()


def select(facts: HostFacts, job: Job, allowed: GpuRequest = "all") -> Selection:
    """Return what `job` wants of the host's GPUs; `allowed` is what hosts.yaml lets anybody use there.

    "all" means all of them: a sick one is not left out silently. Only a GPU in Prohibited mode is, since
    somebody has said that it is not for compute.
    """
    if isinstance(facts.gpus, Missing) or not job.wants_gpus or allowed == "none":
        return Selection(frozenset(), 0)
    permitted, unlisted = _named(facts.gpus, allowed)
    if isinstance(job.gpus, tuple):
        chosen, absent = _named([gpu for gpu in facts.gpus if gpu.index in permitted], job.gpus)
        return Selection(frozenset(chosen), len(chosen), (*unlisted, *absent))
    prohibited = {g.index for g in facts.gpus if g.index in permitted and g.compute_mode == "prohibited"}
    if prohibited == permitted:
        prohibited = set()
    usable = permitted - prohibited
    needed = job.gpus if isinstance(job.gpus, int) else len(usable)
    if isinstance(allowed, int):
        needed = min(needed, allowed) if not isinstance(job.gpus, int) else needed
    return Selection(frozenset(usable), needed, unlisted, frozenset(prohibited))


def _named(gpus: Iterable[Gpu], request: GpuRequest) -> tuple[set[int], tuple[int | str, ...]]:
    present = list(gpus)
    if not isinstance(request, tuple):
        return {gpu.index for gpu in present}, ()
    chosen: set[int] = set()
    absent: list[int | str] = []
    for word in request:
        hits = {gpu.index for gpu in present if word in (gpu.index, gpu.uuid)}
        chosen |= hits
        if not hits:
            absent.append(word)
    return chosen, tuple(absent)
