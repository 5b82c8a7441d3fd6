"""Which GPU each local rank of a host gets, by UUID, and in which order. Pure."""

from collections.abc import Iterable, Mapping

from preflight.decide.decision import DecisionReason, NodeRanks, RankSlot
from preflight.decide.usable_gpus import explain_busy, explain_unusable, is_called
from preflight.errors import GpulaunchError
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.missing import Missing
from preflight.facts.script import ScriptAnalysis
from preflight.frozen import dataclass
from preflight.job import GpuRequest, Job

_NAME_ANOTHER = "name a GPU that it has: gpus: in the run config or hosts.yaml, or --gpus"


class RanksRefused(GpulaunchError):
    """A host cannot give the ranks that were asked of it; the message names host and GPU."""

    exit_code = 1


def map_ranks(
    facts: HostFacts,
    job: Job,
    script: ScriptAnalysis | None = None,
    *,
    allowed: GpuRequest = "all",
    allowed_by: str = "hosts.yaml gpus",
) -> NodeRanks:
    """Return the ranks of one host: one per GPU, in PCI order, healthy and free GPUs before held ones.

    `allowed` is what launches may use on this host, and `allowed_by` who says so. Raises RanksRefused when a
    requested GPU is absent or cannot work, or when the host has too few.
    """
    if job.gpus == "none":
        return _cpu_ranks(facts.host, job.command.ranks_wanted(facts.host) or job.cpu_ranks(facts.host))
    if isinstance(facts.gpus, Missing):
        raise RanksRefused(f"{facts.host}: its GPUs are not known: {facts.gpus.reason}")
    offered, without = _offer(facts.host, facts.gpus, allowed, allowed_by)
    for index in job.command.host_gpus.get(facts.host, ()):
        _find(facts.host, offered, index)
    offered = tuple(gpu for gpu in offered if job.command.passes_filters(facts.host, gpu.index))
    claims = () if isinstance(facts.claims, Missing) else facts.claims
    claimed = {claim.gpu_uuid: f"is claimed by run {claim.run_id} of {claim.user}" for claim in claims}
    judged = [_judge(gpu, claimed) for gpu in offered]
    wanted = job.command.ranks_wanted(facts.host)
    if wanted is None or isinstance(job.gpus, int):
        chosen, notes = _choose(facts.host, judged, job.gpus)
    else:
        chosen, notes = _choose_up_to(facts.host, judged, job.gpus, wanted)
    masked, why = _masking(chosen, script)
    slots = tuple(
        RankSlot(rank, item.uuid, item.gpu.index, "" if isinstance(item.gpu.name, Missing) else item.gpu.name)
        for rank, item in enumerate(chosen)
    )
    return NodeRanks(slots, masked, (*without, *notes, why))


def _cpu_ranks(host: str, count: int) -> NodeRanks:
    if count < 1:
        raise RanksRefused(
            f"{host}: processes_per_host does not say how many ranks it gets",
            f"add `{host}: 1` under processes_per_host, or leave {host} out of --hosts",
        )
    slots = tuple(RankSlot(rank, None, None) for rank in range(count))
    words = "1 CPU rank" if count == 1 else f"{count} CPU ranks"
    return NodeRanks(slots, False, (DecisionReason(f"{words} on {host}", "gpus: none"),))


@dataclass(frozen=True, slots=True)
class _GpuVerdicts:
    """A GPU with the reasons against it: `broken` rules it out, `busy` only puts it last."""

    gpu: Gpu
    uuid: str
    broken: str
    busy: str


def _judge(gpu: Gpu, claimed: Mapping[str, str]) -> _GpuVerdicts:
    uuid = "" if isinstance(gpu.uuid, Missing) else gpu.uuid
    return _GpuVerdicts(gpu, uuid, explain_unusable(gpu), explain_busy(gpu) or claimed.get(uuid, ""))


def _offer(
    host: str, gpus: tuple[Gpu, ...], allowed: GpuRequest, by: str
) -> tuple[tuple[Gpu, ...], tuple[DecisionReason, ...]]:
    """Return the GPUs that launches may use, in the order of the list where there is one."""
    ordered = tuple(sorted(gpus, key=lambda gpu: gpu.index))
    if isinstance(allowed, tuple):
        kept = tuple(_find(host, ordered, wanted) for wanted in allowed)
        return kept, (DecisionReason(f"{host} offers {len(kept)} of its {len(ordered)} GPUs", by),)
    if isinstance(allowed, int):
        return ordered[:allowed], (DecisionReason(f"{host} offers its first {allowed} GPUs", by),)
    if allowed == "none":
        raise RanksRefused(
            f"{host}: {by} leaves it no GPU, and this job wants some",
            f"run with --gpus none, or change {by.partition('=')[0]}",
        )
    return ordered, ()


def _find(host: str, gpus: Iterable[Gpu], wanted: int | str) -> Gpu:
    """Return the GPU that an index or a UUID (or an unambiguous start of one) names."""
    if isinstance(wanted, str) and wanted.isdigit():
        wanted = int(wanted)
    hits = [gpu for gpu in gpus if is_called(gpu, wanted)]
    if len(hits) == 1:
        return hits[0]
    have = ", ".join(
        str(gpu.index)
        if isinstance(wanted, int) or isinstance(gpu.uuid, Missing)
        else f"{gpu.index} ({gpu.uuid})"
        for gpu in gpus
    )
    what = "no GPU" if not hits else "more than one GPU"
    raise RanksRefused(f"{host}: {what} called {wanted}; it has {have or 'none'}", _NAME_ANOTHER)


def _choose(
    host: str, judged: list[_GpuVerdicts], request: GpuRequest
) -> tuple[list[_GpuVerdicts], tuple[DecisionReason, ...]]:
    if isinstance(request, tuple):
        return _by_name(host, judged, request)
    usable = [item for item in judged if not item.broken]
    out = _reasons(host, [item for item in judged if item.broken], "left out")
    if not usable:
        facts = "; ".join(reason.text for reason in out) or "it has none"
        raise RanksRefused(f"{host}: no usable GPU: {facts}", f"gpulaunch preflight {host}")
    free = [item for item in usable if not item.busy]
    held = [item for item in usable if item.busy]
    if request in ("all", "auto"):
        # Every usable GPU gets a rank, so the order changes nothing for who is held: keep PCI order, which
        # keeps NVLink neighbours beside each other.
        return usable, (*out, *_reasons(host, held, "held by others"))
    count = int(request)
    if count > len(usable):
        text = "; ".join(reason.text for reason in out)
        raise RanksRefused(
            f"{host}: {count} GPUs were asked for and {len(usable)} can be used"
            + (f" ({text})" if text else ""),
            f"--gpus {len(usable)}",
        )
    first = (free + held)[:count]
    chosen = sorted(first, key=lambda item: item.gpu.index)
    spared = _reasons(host, [item for item in held if item not in first], "passed over")
    taken = _reasons(host, [item for item in first if item.busy], "held by others")
    return chosen, (*out, *spared, *taken)


def _choose_up_to(
    host: str, judged: list[_GpuVerdicts], request: GpuRequest, wanted: int
) -> tuple[list[_GpuVerdicts], tuple[DecisionReason, ...]]:
    """Choose free GPUs, as many as are wanted at most; what is held or broken is left out, and why."""
    if isinstance(request, tuple):
        judged, _ = _by_name(host, judged, request)
    free = [item for item in judged if not item.broken and not item.busy]
    chosen = free[:wanted]
    spared = [item for item in judged if item.broken or item.busy] if len(free) < wanted else []
    notes = _reasons(host, spared, "left out")
    if not chosen:
        facts = "; ".join(note.text for note in notes) or "the command leaves out all of its GPUs"
        raise RanksRefused(f"{host}: no GPU is free: {facts}", f"gpulaunch preflight {host}")
    return chosen, notes


def _by_name(
    host: str, judged: list[_GpuVerdicts], names: tuple[int | str, ...]
) -> tuple[list[_GpuVerdicts], tuple[DecisionReason, ...]]:
    by_index = {item.gpu.index: item for item in judged}
    chosen: list[_GpuVerdicts] = []
    for name in names:
        item = by_index[_find(host, [item.gpu for item in judged], name).index]
        if item.broken:
            raise RanksRefused(f"{host}: GPU {item.gpu.index} {item.broken}", f"gpulaunch preflight {host}")
        if item in chosen:
            raise RanksRefused(f"{host}: GPU {item.gpu.index} is listed twice; two ranks cannot share it")
        chosen.append(item)
    return chosen, _reasons(host, [item for item in chosen if item.busy], "held by others")


def _reasons(host: str, items: Iterable[_GpuVerdicts], source: str) -> tuple[DecisionReason, ...]:
    """Return what speaks against GPUs: what rules them out, else who holds them."""
    texts = (f"GPU {item.gpu.index} of {host} {item.broken or item.busy}" for item in items)
    return tuple(DecisionReason(text, source) for text in texts)


def _masking(chosen: list[_GpuVerdicts], script: ScriptAnalysis | None) -> tuple[bool, DecisionReason]:
    """Decide whether each rank sees one GPU only. A shared list is better for NVLink and P2P inside NCCL."""
    if len(chosen) == 1:
        return False, DecisionReason("where a host has one rank, that rank sees its own GPU only", "ranks")
    exclusive = [
        item for item in chosen if item.gpu.compute_mode in ("exclusive_process", "exclusive_thread")
    ]
    unknown = [item for item in chosen if isinstance(item.gpu.compute_mode, Missing)]
    if not exclusive and not unknown:
        return False, DecisionReason(
            "every rank sees all GPUs of the node and takes the LOCAL_RANK-th", "compute mode default"
        )
    shared_by_mps = any(
        process.kind == "mps"
        for item in exclusive
        if not isinstance(item.gpu.processes, Missing)
        for process in item.gpu.processes
    )
    if exclusive and shared_by_mps:
        text = "an MPS server owns the exclusive GPUs and shares them, so every rank may see all of them"
        return False, DecisionReason(text, "MPS")
    mode = "Exclusive Process mode" if exclusive else "a compute mode that could not be read"
    if script is not None and script.places_device:
        text = f"{mode}, but the script takes the GPU of its LOCAL_RANK first: every rank sees all GPUs"
        return False, DecisionReason(text, script.places_device)
    text = (
        f"{mode}, and the script is not proven to set its device from LOCAL_RANK before it uses CUDA:"
        " each rank sees its own GPU only"
    )
    return True, DecisionReason(text, mode)
