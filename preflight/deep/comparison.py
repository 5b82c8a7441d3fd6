"""Measured values beside their expectations: peers of the run, the GPU's own best, then its peak."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Literal, TypeAlias

from preflight.deep.margins import DEVICE, OWN_BEST, PATH, PEAK_COMPUTE, PEAK_MEMORY, Margins, median
from preflight.deep.measurements import DeepRun, DeviceFacts, Former, RankDeep, Waits
from preflight.frozen import dataclass

FMA_PER_CLOCK = {
    **dict.fromkeys(("7.0", "7.5", "8.6", "8.9", "12.0"), 512),
    "8.0": 1024,
    "9.0": 2048,
    **dict.fromkeys(("10.0", "10.3"), 4096),
}
_HALVED = ("8.6", "8.9", "12.0")
POWER_BOUND_W = 250.0  # boards with less (T4, L4, A2, A10) reach no fraction of their clock's peak


def is_power_bound(facts: DeviceFacts) -> bool:
    """Return whether a peak says nothing of this board: its power limit is low, or not known."""
    return facts.power_limit_w is None or facts.power_limit_w < POWER_BOUND_W


def compute_tflops(facts: DeviceFacts) -> float | None:
    """Return the dense half-precision peak in TFLOPS, None where a factor is not known."""
    fma = FMA_PER_CLOCK.get(facts.capability)
    if fma is None or not facts.sms or not facts.clock_max_mhz:
        return None
    halved = facts.capability in _HALVED and "GeForce" in facts.model
    return facts.sms * facts.clock_max_mhz * 1e6 * fma * 2 / (2 if halved else 1) / 1e12


def compute_gbs(facts: DeviceFacts) -> float | None:
    """Return the memory's peak in GB/s, None where a factor is not known. Two transfers per clock."""
    if not facts.memory_clock_max_mhz or not facts.bus_bits:
        return None
    return facts.memory_clock_max_mhz * 1e6 * 2 * facts.bus_bits / 8 / 1e9


Verdict: TypeAlias = Literal["ok", "warning", "critical", "unknown"]
_MOST_WAITED = 0.95
FormerValues: TypeAlias = Mapping[tuple[str, str, str], Former]  # by host, UUID and the value's name
Source: TypeAlias = Literal["peers", "own best", "peak", "expect", ""]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a value is held against: below `floor` is a warning, below `critical` critical."""

    source: Source
    value: float
    floor: float
    critical: float = 0.0

    def judge(self, value: float) -> Verdict:
        """Return the verdict on a value."""
        if value < self.critical:
            return "critical"
        return "warning" if value < self.floor else "ok"


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured value of one rank. `expected` is None where there is nothing to compare it with yet."""

    code: str
    name: str  # the value: "gemm_tflops"
    label: str  # for people: "matrix products"
    rank: int
    host: str
    gpu: int | None
    uuid: str
    model: str
    value: float
    unit: str
    samples: tuple[float, ...]
    expected: Expectation | None
    verdict: Verdict
    waits: Waits = Waits()
    former: Former | None = None  # of the same GPU


@dataclass(frozen=True, slots=True)
class Value:
    """A value that every rank may have: how it is taken from a rank, and what it is held against."""

    code: str
    step: str
    name: str
    label: str
    unit: str
    samples: Callable[[RankDeep], tuple[float, ...]]
    typical: Callable[[tuple[float, ...], bool], float]
    margins: dict[str, Margins]
    peak: Callable[[DeviceFacts], float | None] = lambda _: None
    peak_floor: float = 0.0
    floor_key: str = ""  # of `expect:`
    group: Callable[[RankDeep], object] = lambda _: None  # only ranks of one group are peers


def estimate_sustained(samples: tuple[float, ...], on_gpu: bool) -> float:  # noqa: FBT001 - a callback
    """Return what a device keeps up: on a GPU the median of the second half, which is warm."""
    return median(samples[len(samples) // 2 :] if on_gpu else samples)


def estimate_usual(samples: tuple[float, ...], _on_gpu: bool) -> float:  # noqa: FBT001 - a callback
    """Return the median: one disturbed copy is not the path's fault."""
    return median(samples)


def estimate_rank_rate(samples: tuple[float, ...], on_gpu: bool) -> float:  # noqa: FBT001 - a callback
    """Return what several ranks reach: on CPUs the best, since each of them waits for processors at times."""
    return median(samples) if on_gpu else max(samples)


def _copies(direction: str, rank: RankDeep) -> tuple[float, ...]:
    rates: tuple[float, ...] = getattr(rank.host_copies, direction, ())
    return rates


# fmt: off
VALUES: tuple[Value, ...] = (
    Value("DEEP002", "matmul", "gemm_tflops", "matrix products", "TFLOPS",
          samples=lambda rank: rank.matmul.tflops if rank.matmul else (), typical=estimate_sustained,
          margins=DEVICE, peak=compute_tflops, peak_floor=PEAK_COMPUTE, floor_key="gemm_tflops"),
    Value("DEEP004", "copy", "memory_gbs", "memory copies", "GB/s",
          samples=lambda rank: rank.copy.gbs if rank.copy else (), typical=estimate_usual,
          margins={"gpu": DEVICE["gpu"], "cpu": PATH["cpu"]}, peak=compute_gbs, peak_floor=PEAK_MEMORY,
          floor_key="memory_gbs"),
    *(
        Value(
            "DEEP005", "host", name, label, "GB/s",
            samples=partial(_copies, direction),
            typical=estimate_usual,
            margins=PATH,
            floor_key=key,
        )
        for name, label, key, direction in (
            ("h2d_gbs", "host to device", "h2d_gbs", "to_device"),
            ("d2h_gbs", "device to host", "", "from_device"),
            ("h2d_together_gbs", "host to device, all at once", "", "to_device_together"),
            ("d2h_together_gbs", "device to host, all at once", "", "from_device_together"),
        )
    ),
    # One rank speaks for its node: all ranks of a group have the same rate.
    Value("DEEP007", "node", "allreduce_gbs", "all-reduce in the node", "GB/s",
          samples=lambda rank: rank.node.busbw if rank.node and rank.local_rank == 0 else (),
          typical=estimate_rank_rate, margins=PATH, floor_key="allreduce_gbs",
          group=lambda rank: rank.node.members if rank.node else None),
    Value("DEEP008", "world", "world_gbs", "all-reduce over the world", "GB/s",
          samples=lambda rank: rank.world.busbw if rank.world and rank.rank == 0 else (),
          typical=estimate_rank_rate, margins=PATH),
)
# fmt: on


def read_values(run: DeepRun) -> tuple[Reading, ...]:
    """Return every measured value with its verdict, by check and rank."""
    former = {(each.host, each.uuid, each.name): each for each in run.former if each.uuid}
    return tuple(reading for value in VALUES for reading in _readings(run, value, former))


def _readings(run: DeepRun, value: Value, former: FormerValues) -> Iterator[Reading]:
    found = [
        (rank, rank.facts, value.typical(value.samples(rank), rank.on_gpu))
        for rank in run.ranks
        if rank.facts is not None and value.samples(rank)
    ]
    for rank, facts, measured in found:
        alike = _likeness(rank, facts, value)
        others = [
            each for other, of, each in found if other is not rank and _likeness(other, of, value) == alike
        ]
        before = former.get((rank.host, facts.uuid, value.name))
        expected, verdict = _judge(run, rank, value, measured, others, before)
        yield Reading(
            code=value.code,
            name=value.name,
            label=value.label,
            rank=rank.rank,
            host=rank.host,
            gpu=rank.gpu,
            uuid=facts.uuid,
            model=facts.model,
            value=measured,
            unit=value.unit,
            samples=value.samples(rank),
            expected=expected,
            verdict=verdict,
            waits=_waits(rank, value),
            former=before,
        )


def _likeness(rank: RankDeep, facts: DeviceFacts, value: Value) -> object:
    """Return what peers have in common."""
    size = (rank.matmul.size, rank.matmul.dtype) if rank.matmul else None
    return facts.device, facts.model, size, value.group(rank)


def _judge(
    run: DeepRun, rank: RankDeep, value: Value, measured: float, others: list[float], former: Former | None
) -> tuple[Expectation | None, Verdict]:
    """Return the expectation that decides: the first of the worst verdict."""
    waits = _waits(rank, value)
    expectations = _expectations(run, rank, value, others, former)
    judged = [(expectation, _judge_one(expectation, measured, waits)) for expectation in expectations]
    worst_first: tuple[Verdict, ...] = ("critical", "warning", "unknown", "ok")
    return min(judged, key=lambda each: worst_first.index(each[1]), default=(None, "ok"))


def _judge_one(expectation: Expectation, measured: float, waits: Waits) -> Verdict:
    """Return the verdict on a value; unknown where the rank had its processor for a moment only.

    Rates of CPU ranks are without the time that others had the processor, but not without what these left in
    its caches.
    """
    verdict = expectation.judge(measured)
    if verdict == "ok" or expectation.source == "expect" or waits.waited <= _MOST_WAITED:
        return verdict
    return "unknown"


def _waits(rank: RankDeep, value: Value) -> Waits:
    """Return what kept a CPU rank from its processor; the GPU of a rank waits for none."""
    return Waits() if rank.on_gpu else rank.waits.get(value.step, Waits())


def _expectations(
    run: DeepRun, rank: RankDeep, value: Value, others: list[float], former: Former | None
) -> Iterator[Expectation]:
    facts = rank.facts
    if facts is None:
        return
    if others:
        middle, margins = median(others), value.margins["gpu" if rank.on_gpu else "cpu"]
        yield Expectation("peers", middle, margins.warning * middle, margins.critical * middle)
    if former is not None:
        yield Expectation("own best", former.best, OWN_BEST * former.best)
    peak = None if is_power_bound(facts) else value.peak(facts)
    if peak and value.peak_floor:
        yield Expectation("peak", peak, value.peak_floor * peak)
    floor = getattr(run.expect.get(rank.host), value.floor_key, None) if value.floor_key else None
    if floor is not None:
        yield Expectation("expect", floor, floor, floor)
