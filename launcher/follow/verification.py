"""Are the ranks what was planned? Judged from what each rank reported from inside. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.planning.plan import Plan
from launcher.text import count_noun, one_line
from preflight.decide.decision import RankSlot
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class ExpectedRank:
    """What one rank of the plan must find itself to be."""

    rank: int
    host: str
    world_size: int
    slot: RankSlot
    mixed_precision: str


def list_mismatches(expected: ExpectedRank, host: str, reported: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a rank reported that is not as planned; what it did not report contradicts nothing.

    `reported` holds fields of the events "rank" (local_rank, world_size) and "state" (world_size, world_rank,
    device, gpu, mixed_precision), whatever is known by now.
    """
    if host != expected.host:
        yield f"rank {expected.rank} runs on {host} instead of {expected.host}"
    wanted: dict[str, object] = {
        "local_rank": expected.slot.local_rank,
        "world_size": expected.world_size,
        "world_rank": expected.rank,
        "mixed_precision": expected.mixed_precision,
    }
    for name, want in wanted.items():
        if name in reported and reported[name] != want:
            words = name.replace("_", " ")
            found = one_line(str(reported[name]))
            yield f"{words} is {found} instead of {want} in rank {expected.rank} ({host})"
    yield from _wrong_device(expected, host, reported)


def _wrong_device(expected: ExpectedRank, host: str, reported: Mapping[str, Any]) -> Iterator[str]:
    kind = str(reported.get("device", "")).partition(":")[0]
    uuid = str(reported.get("gpu", ""))
    if not kind:
        return
    device = one_line(str(reported["device"]))
    if expected.slot.gpu_uuid is None:
        if kind != "cpu":
            yield f"rank {expected.rank} ({host}) runs on {device} instead of the CPU"
    elif kind != "cuda":
        wanted = f"GPU {expected.slot.gpu_index}"
        yield f"rank {expected.rank} ({host}) runs on {device} instead of {wanted}"
    elif uuid and uuid != expected.slot.gpu_uuid:
        wanted = f"GPU {expected.slot.gpu_index} ({expected.slot.gpu_uuid})"
        yield f"rank {expected.rank} ({host}) opened {one_line(str(uuid))} instead of {wanted}"


def find_remedy(expected: ExpectedRank, reported: Mapping[str, Any]) -> str:
    """Return what to do about a rank that is not as planned, "" where that is not known.

    Its device comes first: what else is wrong often follows from it.
    """
    kind = str(reported.get("device", "")).partition(":")[0]
    host, index = expected.host, expected.slot.gpu_index
    if kind == "cpu" and expected.slot.gpu_uuid is not None:
        return (
            f"torch sees no GPU in this rank (gpulaunch preflight {host} shows its torch and driver),"
            " or the script takes the CPU: --gpus none where that is meant"
        )
    if kind == "cuda" and expected.slot.gpu_uuid is None:
        return "the script takes a GPU though the launch gives it none: leave out --gpus none"
    if kind == "cuda" and reported.get("gpu") not in (None, "", expected.slot.gpu_uuid):
        return (
            f"the script chooses another GPU than that of its rank, {index}: torch.cuda.set_device(int("
            'os.environ["LOCAL_RANK"])), and no CUDA_VISIBLE_DEVICES of its own (gpulaunch lint SCRIPT)'
        )
    found = reported.get("mixed_precision", expected.mixed_precision)
    if found != expected.mixed_precision:
        return (
            f"the script sets it itself: leave it out of the script, or --precision {one_line(str(found), 8)}"
        )
    is_world_wrong = (reported.get("world_size"), reported.get("world_rank", -1)) != (
        expected.world_size,
        expected.rank,
    )
    if "world_rank" in reported and is_world_wrong:
        return "the script makes a world of its own: it must leave RANK and WORLD_SIZE as they are"
    return ""


def has_world(expected: ExpectedRank, reported: Mapping[str, Any]) -> bool:
    """Return whether a rank has reported its world; one that is alone need not set one up."""
    return "world_rank" in reported or (expected.world_size == 1 and "world_size" in reported)


class Verifier:
    """Collects what ranks report; says once that all is as planned, or at once what is not."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._expected = {
            rank: ExpectedRank(rank, node.host, plan.world_size, slot, plan.precision.mixed_precision)
            for rank, node, slot in plan.slots
        }
        self._reported: dict[int, dict[str, Any]] = {}
        self._notified: set[str] = set()
        # The ranks that have not reported it yet: each report is judged in the same time for any number.
        self._unheard = set(self._expected)
        self._without_world = set(self._expected)
        self._without_place = set(self._expected)
        self._without_precision = set(self._expected)
        self.mismatches: tuple[str, ...] = ()
        self.remedy = ""

    @property
    def devices_verified(self) -> bool:
        """Whether every rank has reported that world, rank and device are as planned."""
        return not self._without_world and not self._without_place and not self.mismatches

    @property
    def all_reported(self) -> bool:
        """Whether every rank has started and reported who it is, and none contradicts the plan."""
        return not self._unheard and not self.mismatches

    @property
    def precision_verified(self) -> bool:
        """Whether every rank has reported that its mixed precision is as planned."""
        return not self._without_precision and not self.mismatches

    def update(self, host: str, rank: int, fields: Mapping[str, Any]) -> Iterator[str]:
        """Take what a rank reported; yield sentences worth saying now. Contradictions go to `mismatches`."""
        expected = self._expected.get(rank)
        if expected is None:
            self.mismatches = (f"rank {rank} on {host} is none of the {self._plan.world_size} planned",)
            return
        reported = self._reported.setdefault(rank, {})
        reported.update(fields)
        self._note(expected, reported)
        wrong = tuple(list_mismatches(expected, host, reported))
        if wrong:
            self.mismatches = wrong
            self.remedy = find_remedy(expected, reported)
            return
        if self.devices_verified and "placed" not in self._notified:
            self._notified.add("placed")
            size = self._plan.world_size
            gpus = sum(expected.slot.gpu_uuid is not None for expected in self._expected.values())
            where = "each on its own GPU" if gpus == size else "on the CPU" if not gpus else f"{gpus} on GPUs"
            yield f"{count_noun(size, 'rank')} as planned: world size {size}, {where}"
        if self.precision_verified and "precise" not in self._notified:
            self._notified.add("precise")
            yield f"mixed precision {self._plan.precision.mixed_precision} in every rank, as planned"

    def unreported_ranks(self) -> tuple[int, ...]:
        """Return the ranks that never reported their world."""
        return tuple(rank for rank in self._expected if rank in self._without_world)

    def ranks_without_device(self) -> tuple[int, ...]:
        """Return the ranks that reported their world, but not which device they use."""
        known = self._without_place - self._without_world
        return tuple(rank for rank in self._expected if rank in known)

    def _note(self, expected: ExpectedRank, reported: Mapping[str, Any]) -> None:
        if reported:
            self._unheard.discard(expected.rank)
        if has_world(expected, reported):
            self._without_world.discard(expected.rank)
        blind = expected.slot.gpu_uuid is None and reported.get("visible") == ""
        if has_world(expected, reported) and ("device" in reported or blind):
            self._without_place.discard(expected.rank)
        if "mixed_precision" in reported:
            self._without_precision.discard(expected.rank)
