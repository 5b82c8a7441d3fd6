"""What every rank used over a run, read from the usage.jsonl of each host, kept locally."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from launcher import safe_json
from launcher.rundir.log_store import make_safe_name
from launcher.safe_json import read_mapping, read_mappings, read_number
from launcher.text import format_memory, group_alike
from preflight.frozen import dataclass

USAGE = "usage.jsonl"
COLUMNS = ("busy", "memory_mib", "power_w", "rss_mib", "cpu")
MAX_SAMPLES = 200_000
_LONGEST = 1 << 20
CONTEXT_MIB = 32.0  # an unused GPU has a few MiB in use; the smallest CUDA context takes more than this
FEW_SAMPLES = 3  # so few may all have missed the peak


@dataclass(slots=True)
class RankSeries:
    """One rank's samples. Times are of this machine's clock; a value that was not measured is NaN."""

    rank: int
    host: str
    at: list[float] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})

    def has(self, column: str) -> bool:
        """Whether it was ever measured."""
        return any(math.isfinite(value) for value in self.values[column])

    def mean(self, column: str) -> float | None:
        """Return the mean of what was measured, None when nothing was."""
        good = [value for value in self.values[column] if math.isfinite(value)]
        return sum(good) / len(good) if good else None

    def peak(self, column: str) -> float | None:
        """Return the highest that was measured, None when nothing was."""
        return max((value for value in self.values[column] if math.isfinite(value)), default=None)


def describe_gpu_peak(mib: float | None, samples: float) -> str:
    """Return the peak of a GPU's memory as so many samples show it; "unused" without a CUDA context."""
    if mib is None or mib < CONTEXT_MIB:
        return "not measured" if mib is None else "unused"
    return f"{'at least ' if samples < FEW_SAMPLES else ''}{format_memory(mib)}"


def read_usage(
    directory: Path, plan: Mapping[str, Any], clock_offset_s: Mapping[str, Any]
) -> tuple[RankSeries, ...]:
    """Return the samples of every rank of a plan. What cannot be read is left out."""
    found: list[RankSeries] = []
    planned = ((host, (rank, str(slot.get("gpu_uuid") or ""))) for rank, host, slot in read_slots(plan))
    for host, slots in group_alike(planned).items():
        behind = clock_offset_s.get(host)
        ranks = [(RankSeries(rank, host), uuid) for rank, uuid in dict(slots).items()]
        for sample in _samples(directory / make_safe_name(host) / USAGE):
            at = sample["t"] + (float(behind) if isinstance(behind, int | float) else 0.0)
            for series, uuid in ranks:
                _take(series, at, read_mapping(sample.get("gpus")).get(uuid), sample)
        found += [series for series, _ in ranks if any(map(series.has, COLUMNS))]
    return tuple(sorted(found, key=lambda series: series.rank))


def _take(series: RankSeries, at: float, gpu: object, sample: Mapping[str, Any]) -> None:
    measured = {**read_mapping(gpu), **read_mapping(read_mapping(sample.get("ranks")).get(str(series.rank)))}
    if not measured:
        return
    series.at.append(at)
    for name in COLUMNS:
        value = read_number(measured.get(name))
        series.values[name].append(math.nan if value is None else value)


def _samples(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            for _ in range(MAX_SAMPLES):
                line = file.readline(_LONGEST)
                if not line:
                    return
                try:
                    sample = safe_json.loads(line)
                    if sample["event"] == "usage" and math.isfinite(float(sample["t"])):
                        yield {**sample, "t": float(sample["t"])}
                except (ValueError, KeyError, TypeError, RecursionError):
                    continue
    except OSError:
        return


def read_slots(plan: Mapping[str, Any]) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield rank, host and slot of every rank of a plan that is kept as JSON; what is damaged is left out."""
    for node in read_mappings(plan.get("nodes")):
        first = node.get("first_rank")
        for slot in read_mappings(read_mapping(node.get("ranks")).get("slots")):
            local = slot.get("local_rank")
            if isinstance(first, int) and isinstance(local, int):
                yield first + local, str(node.get("host", "?")), slot
