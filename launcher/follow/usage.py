"""What the ranks of a run use, as their hosts measure it: the last of it, peaks, means. Pure."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from launcher.planning.plan import Plan
from launcher.rundir.usage_series import COLUMNS, FEW_SAMPLES
from launcher.safe_json import read_mapping, read_number
from launcher.text import group_alike
from preflight.diagnosis.free_memory import FreeMemory
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class RankUsage:
    """What one rank used. None: never measured. Memory and use of a GPU are of all that share it."""

    rank: int
    host: str
    gpu: str | None  # its UUID
    samples: int
    gpu_busy: float | None  # percent: the last, or the mean
    gpu_mib: float | None  # the last, or the peak
    rss_mib: float | None
    cpu: float | None  # percent of one core
    power_w: float | None = None
    step: int | None = None  # optimizer steps that the guard has counted
    rss_is_sampled: bool = False  # between two samples it may have used more: it gave no peak of its own

    @property
    def measured(self) -> bool:
        """Whether anything was."""
        return any(value is not None for value in (self.gpu_busy, self.gpu_mib, self.rss_mib, self.cpu))

    @property
    def on_gpu(self) -> bool:
        """Whether anything of its GPU was."""
        return self.gpu_busy is not None or self.gpu_mib is not None


@dataclass(slots=True)
class _Series:
    """One measured value over time, of which only this is kept."""

    last: float | None = None
    peak: float | None = None
    total: float = 0.0
    count: int = 0

    def take(self, value: object) -> None:
        self.last = read_number(value)
        if self.last is None:
            return
        self.peak = self.last if self.peak is None else max(self.peak, self.last)
        self.total += self.last
        self.count += 1

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


_MOST_RECENT = 8  # of a host's samples: those behind a failure, while the run is stopped, and one before it
_YOUNG_S = 15.0


class UsageTracker:
    """Takes every sample of every host."""

    def __init__(self, plan: Plan) -> None:
        self._slots = {rank: (node.host, slot.gpu_uuid) for rank, node, slot in plan.slots}
        self._ranks_of = group_alike((node.host, rank) for rank, node, _ in plan.slots)
        self._series = {rank: {name: _Series() for name in COLUMNS} for rank in self._slots}
        self._samples = dict.fromkeys(self._slots, 0)
        self._with_peak: set[int] = set()  # ranks that gave the kernel's count of their peak memory
        self._steps: dict[int, int] = {}
        self._seen: dict[str, float] = {}
        self._recent: dict[str, deque[tuple[float, Mapping[str, Any]]]] = {}
        self.missing: dict[str, str] = {}  # by host: why its GPUs could not be read
        self.clock_offset_s: dict[str, float] = {}  # by host: what is to be added to its clock to have ours

    def feed(self, host: str, sample: Mapping[str, Any], at: float) -> None:
        """Take a sample that was measured at `at` of our clock; one that comes twice counts once."""
        sent_at = sample.get("t")
        if not isinstance(sent_at, int | float) or sent_at <= self._seen.get(host, -math.inf):
            return
        self._seen[host] = float(sent_at)
        self.clock_offset_s[host] = at - float(sent_at)
        if sample.get("gpus_missing"):
            self.missing[host] = str(sample["gpus_missing"])
        self._recent.setdefault(host, deque(maxlen=_MOST_RECENT)).append((at, sample))
        gpus, ranks = read_mapping(sample.get("gpus")), read_mapping(sample.get("ranks"))
        for rank in self._ranks_of.get(host, ()):
            uuid = self._slots[rank][1]
            both = {**read_mapping(gpus.get(uuid or "")), **read_mapping(ranks.get(str(rank)))}
            self._samples[rank] += bool(both)
            if isinstance(both.get("step"), int):
                self._steps[rank] = both["step"]
            for name, series in self._series[rank].items():
                series.take(both.get(name))

    def end(self, host: str, left: Mapping[str, Any]) -> None:
        """Take what the kernel had counted of a rank when it left: short runs are hardly sampled."""
        rank = left.get("rank")
        if not isinstance(rank, int) or self._slots.get(rank, ("",))[0] != host:
            return
        peak, cpu_s, lived_s = (_number(left.get(name)) for name in ("rss_peak_mib", "cpu_s", "lived_s"))
        series = self._series[rank]
        if peak is not None:
            series["rss_mib"].peak = max(series["rss_mib"].peak or 0.0, peak)
            self._with_peak.add(rank)
        if cpu_s is not None and lived_s and series["cpu"].count < FEW_SAMPLES:  # the kernel's count is exact
            series["cpu"].total, series["cpu"].count = 100.0 * cpu_s / lived_s, 1

    def room_before(self, host: str, rank: int | None, at: float) -> FreeMemory | None:
        """Return the memory that was free when a rank or a launcher failed, None where no sample is young."""
        young = [each for each in self._recent.get(host, ()) if 0 <= at - each[0] <= _YOUNG_S]
        if not young:
            return None
        taken_at, sample = young[-1]
        gpu = self._slots[rank][1] if rank in self._slots else None
        free = read_mapping(read_mapping(sample.get("gpus")).get(gpu or "")).get("memory_free_mib")
        return FreeMemory(at - taken_at, read_number(free), read_number(sample.get("shm_free_mib")))

    def latest(self) -> tuple[RankUsage, ...]:
        """Return what each measured rank uses by its host's last sample."""
        return self._all(lambda series: series.last, lambda series: series.last)

    def totals(self) -> tuple[RankUsage, ...]:
        """Return the mean use and the peak memory of each measured rank."""
        return self._all(lambda series: series.mean, lambda series: series.peak)

    def _all(self, of_use: Any, of_memory: Any) -> tuple[RankUsage, ...]:
        found = []
        for rank, (host, uuid) in sorted(self._slots.items()):
            series = self._series[rank]
            used = RankUsage(
                rank=rank,
                host=host,
                gpu=uuid,
                samples=self._samples[rank],
                gpu_busy=of_use(series["busy"]),
                gpu_mib=of_memory(series["memory_mib"]),
                rss_mib=of_memory(series["rss_mib"]),
                cpu=of_use(series["cpu"]),
                power_w=of_use(series["power_w"]),
                step=self._steps.get(rank),
                rss_is_sampled=rank not in self._with_peak,
            )
            if used.measured:
                found.append(used)
        return tuple(found)


def _number(value: object) -> float | None:
    number = read_number(value)
    return number if number is not None and number >= 0 else None
