"""What the ranks of a run that is over have used, for people and programs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from launcher.follow.usage import RankUsage
from launcher.rundir.usage_series import CONTEXT_MIB, FEW_SAMPLES, describe_gpu_peak
from launcher.text import count_noun, format_memory, name_ranks

FEW = 8  # so many ranks are reported one by one; of more the mean and the extremes


def render_usage(usage: Sequence[RankUsage]) -> Iterator[str]:
    """Yield peak memory and mean use, by rank where they are few."""
    unused = [used for used in usage if used.gpu_mib is not None and used.gpu_mib < CONTEXT_MIB]
    gpus = [used for used in usage if used.on_gpu and used not in unused]
    cpus = [used for used in usage if used not in gpus]
    if unused:
        most = max(used.samples for used in unused)
        unsure = "" if most >= FEW_SAMPLES else "GPU memory not known: "
        seen = f"{unsure}no memory of the GPU in use in {count_noun(most, 'sample')}"
        yield f"{name_ranks(used.rank for used in unused)}: {seen}"
    for ranks, words in ((gpus, _gpu_words), (cpus, _cpu_words)):
        if len(ranks) <= FEW:
            yield from (f"rank {used.rank} on {used.host}: {words(used)}" for used in ranks)
    if len(gpus) > FEW:
        yield from _extremes(gpus, "GPU use", lambda used: used.gpu_busy, _percent)
        least = " (at least)" if any(used.samples < FEW_SAMPLES for used in gpus) else ""
        yield from _extremes(gpus, f"peak GPU memory{least}", lambda used: used.gpu_mib, format_memory)
    if len(cpus) > FEW:
        yield from _extremes(cpus, "CPU use", lambda used: used.cpu, _percent)
        least = " (at least)" if any(used.rss_is_sampled for used in cpus) else ""
        yield from _extremes(cpus, f"peak memory{least}", lambda used: used.rss_mib, format_memory)


def encode_usage(used: RankUsage) -> dict[str, Any]:
    """Return one rank's as plain JSON types."""
    return {
        "rank": used.rank,
        "host": used.host,
        "gpu": used.gpu,
        "samples": used.samples,
        "gpu_busy_mean": _rounded(used.gpu_busy),
        "gpu_memory_peak_mib": _rounded(used.gpu_mib),
        "gpu_power_mean_w": _rounded(used.power_w),
        "rss_peak_mib": _rounded(used.rss_mib),
        "rss_peak_is_sampled": used.rss_is_sampled,
        "cpu_mean": _rounded(used.cpu),
    }


def _gpu_words(used: RankUsage) -> str:
    few = f" ({count_noun(used.samples, 'sample')})" if used.samples < FEW_SAMPLES else ""
    peak = describe_gpu_peak(used.gpu_mib, used.samples)
    return f"peak GPU memory {peak}, mean GPU use {_percent(used.gpu_busy)}{few}"


def _cpu_words(used: RankUsage) -> str:
    cpu = "not measured" if used.cpu is None else f"{_percent(used.cpu)} of one core"
    least = "at least " if used.rss_is_sampled and used.rss_mib is not None else ""
    memory = "not measured" if used.rss_mib is None else format_memory(used.rss_mib)
    return f"peak memory {least}{memory}, mean CPU use {cpu}"


def _extremes(
    usage: Sequence[RankUsage],
    name: str,
    value_of: Callable[[RankUsage], float | None],
    words: Callable[[float], str],
) -> Iterator[str]:
    known = [(value, used) for used in usage if (value := value_of(used)) is not None]
    if not known:
        return
    known.sort(key=lambda pair: pair[0])
    (low, least), (high, most) = known[0], known[-1]
    if len(known) == 1:
        yield f"{name} of rank {least.rank} on {least.host}, the only one measured: {words(low)}"
        return
    mean = words(sum(value for value, _ in known) / len(known))
    yield (
        f"{name} of {len(known)} ranks: mean {mean}; lowest {words(low)} (rank {least.rank} on {least.host}),"
        f" highest {words(high)} (rank {most.rank} on {most.host})"
    )


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.0f} %"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
