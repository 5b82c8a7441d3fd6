"""What the deep checks measured, by rank and step, as read from the reports of ranks, which are untrusted.

Rates are GB/s (1e9 bytes) and TFLOPS.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from preflight.errors import MalformedFacts
from preflight.facts.json_codec import decode
from preflight.frozen import dataclass
from preflight.job import Expect


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The device of a rank, as torch and NVML describe it on the host."""

    device: str  # "gpu" or "cpu"
    model: str
    torch: str
    node: int
    uuid: str = ""
    capability: str = ""  # compute capability, or the vector instructions of a CPU
    cuda: str | None = None
    sms: int | None = None
    clock_max_mhz: float | None = None
    memory_clock_max_mhz: float | None = None
    bus_bits: int | None = None
    power_limit_w: float | None = None
    nvml_missing: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryTest:
    """Two patterns written and read back."""

    bytes: int
    bad_words: int
    seconds: float
    first_bad: int | None = None  # offset of the first chunk with a bad word


@dataclass(frozen=True, slots=True)
class Products:
    """Matrix products: a rate per window of time; samples are [seconds, SM MHz, W, degrees C]."""

    tflops: tuple[float, ...]
    size: int
    dtype: str
    sensors: tuple[tuple[float | None, ...], ...] = ()
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of seeded products; `stable`: a second time gave the same."""

    digests: tuple[str, ...]
    stable: bool


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies within the device's memory."""

    gbs: tuple[float, ...]
    bytes: int


@dataclass(frozen=True, slots=True)
class HostCopies:
    """Copies between host and device: alone, and all ranks of the node at once."""

    to_device: tuple[float, ...]
    from_device: tuple[float, ...]
    to_device_together: tuple[float, ...]
    from_device_together: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """An exchange with another rank, both ways at once: the best rate one way, the median latency."""

    peer: int
    gbs: float
    latency_us: float
    correct: bool
    access: bool | None = None  # whether the GPUs may address each other's memory
    round: int = 0
    rails: int = 1  # how many ranks of each node exchanged at once
    repeat: int = 0  # 1, 2, ...: measured again, with nothing else on the network


@dataclass(frozen=True, slots=True)
class Transfers:
    """The exchanges of one rank in a step."""

    pairs: tuple[Transfer, ...]


@dataclass(frozen=True, slots=True)
class Reduction:
    """All-reduces of a group."""

    busbw: tuple[float, ...]
    latency_us: tuple[float, ...]
    correct: bool
    members: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """A rank that missed a deadline and reported it; `waiting`: its own part was done."""

    step: str
    waiting: bool
    stack: tuple[str, ...]  # innermost frame first


@dataclass(frozen=True, slots=True)
class Silent:
    """A rank that missed a deadline without a report, as the kernel shows it to a process beside it."""

    step: str
    state: str  # T: stopped
    waits_in: str = ""  # the kernel's function


@dataclass(frozen=True, slots=True)
class Waits:
    """Shares of a step's time in which the rank could have computed and had no processor."""

    waited: float = 0.0  # other processes had it
    throttled: float = 0.0  # the quota of its control group was used up


@dataclass(frozen=True, slots=True)
class RankDeep:
    """All that one rank reported. A step that it did not report is None."""

    rank: int
    host: str
    gpu: int | None = None  # the index of its GPU on the host; None: a CPU rank
    local_rank: int = 0
    facts: DeviceFacts | None = None
    memory: MemoryTest | None = None
    matmul: Products | None = None
    digest: Digests | None = None
    copy: Copies | None = None
    host_copies: HostCopies | None = None
    peer: Transfers | None = None
    node: Reduction | None = None
    world: Reduction | None = None
    pairs: Transfers | None = None
    begun: tuple[str, ...] = ()
    failed: dict[str, str] = field(default_factory=dict)  # step -> why
    waits: dict[str, Waits] = field(default_factory=dict)  # by step
    stuck: Stuck | None = None
    silent: Silent | None = None
    done: bool = False

    @property
    def name(self) -> str:
        """How messages call it."""
        where = f"{self.host} GPU {self.gpu}" if self.gpu is not None else self.host
        return f"rank {self.rank} ({where})"

    @property
    def on_gpu(self) -> bool:
        """Whether it measured a GPU."""
        return self.facts is not None and self.facts.device == "gpu"


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """A GPU or a host that no rank measured, why, and what to do; "" shows the host's findings."""

    host: str
    gpu: int | None  # None: the host itself
    why: str
    fix: str = ""

    def __post_init__(self) -> None:
        """Fill the fix in."""
        object.__setattr__(self, "fix", self.fix or f"gpulaunch preflight {self.host}")


@dataclass(frozen=True, slots=True)
class Former:
    """What one GPU has reached in former measurements of one value."""

    host: str
    uuid: str
    name: str  # the value: "gemm_tflops"
    best: float
    last: tuple[tuple[float, float], ...] = ()  # the latest: seconds since 1970, value; oldest first


@dataclass(frozen=True, slots=True)
class DeepRun:
    """A run of the deep checks, before it is judged."""

    ranks: tuple[RankDeep, ...]
    unmeasured: tuple[Unmeasured, ...] = ()
    ended: str = ""  # why it did not finish; "": it did
    stopped: bool = False  # by a person or a scheduler: no host is to blame for what lacks
    failed_rank: int | None = None  # the rank whose end was the first
    lost: dict[str, str] = field(default_factory=dict)  # by host that was lost while it ran: why
    hung: bool = False
    stacks: dict[int, tuple[str, ...]] = field(default_factory=dict)  # of a hang, innermost frame first
    # Ranks whose stack differs from that of most, by the run's own hang report.
    outliers: tuple[int, ...] = ()
    outliers_why: str = ""
    former: tuple[Former, ...] = ()
    expect: dict[str, Expect] = field(default_factory=dict)  # by host
    run_id: str = ""
    seconds: float = 0.0

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that were measured, in the order of their ranks."""
        return tuple(dict.fromkeys(each.host for each in self.ranks))


_MOST_VALUES = 4096
_STEPS: Mapping[str, tuple[str, str, type[Any]]] = {
    "join": ("DEEP008", "facts", DeviceFacts),
    "memory": ("DEEP001", "memory", MemoryTest),
    "matmul": ("DEEP002", "matmul", Products),
    "digest": ("DEEP003", "digest", Digests),
    "copy": ("DEEP004", "copy", Copies),
    "host": ("DEEP005", "host_copies", HostCopies),
    "peer": ("DEEP006", "peer", Transfers),
    "node": ("DEEP007", "node", Reduction),
    "world": ("DEEP008", "world", Reduction),
    "pairs": ("DEEP009", "pairs", Transfers),
}
"""The steps in their order: the check of each, the field of `RankDeep` and what its report holds."""

STEP_CODES: Mapping[str, str] = {step: code for step, (code, _, _) in _STEPS.items()}


def add_reports(rank: RankDeep, reports: Iterable[Mapping[str, Any]]) -> RankDeep:
    """Return the rank with what it reported; a report that does not fit counts as a failed step."""
    for report in reports:
        rank = _add(rank, report)
    return rank


def _add(rank: RankDeep, report: Mapping[str, Any]) -> RankDeep:
    kind, step = report.get("kind"), str(report.get("step"))
    if kind == "result" and step == "end":
        return replace(rank, done=True)
    if step not in STEP_CODES:
        return rank
    if kind == "begin":
        return replace(rank, begun=(*rank.begun, step))
    if kind == "failed":
        return replace(rank, failed={**rank.failed, step: str(report.get("error"))[:1000]})
    try:
        if kind == "stuck":
            return replace(rank, stuck=decode(Stuck, dict(report)))
        if kind == "silent":
            return replace(rank, silent=decode(Silent, dict(report)))
        _, name, shape = _STEPS[step]
        if kind == "result" and _is_bounded(report):
            waits = {**rank.waits, step: decode(Waits, dict(report))}
            return replace(rank, waits=waits, **{name: decode(shape, dict(report))})
    except MalformedFacts as misfit:
        return replace(rank, failed={**rank.failed, step: f"its report does not fit: {misfit.message}"})
    return replace(rank, failed={**rank.failed, step: "its report does not fit"})


def _is_bounded(value: object) -> bool:
    """Return whether numbers and lists are of a size that arithmetic with them cannot fail."""
    if isinstance(value, Mapping):
        return all(_is_bounded(each) for each in value.values())
    if isinstance(value, list):
        return len(value) <= _MOST_VALUES and all(_is_bounded(each) for each in value)
    if isinstance(value, float):
        return math.isfinite(value) and abs(value) < 1e15
    return True
