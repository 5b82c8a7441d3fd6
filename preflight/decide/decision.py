"""The values that precision and rank planning decide, with the reasons they give."""

from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.frozen import dataclass
from preflight.job import Precision


@dataclass(frozen=True, slots=True)
class DecisionReason:
    """Why a decision is what it is. `source` names the fact or rule: a host's GPU, a docs code, the user."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Decision:
    """One mixed precision for the whole launch. `requested` is an overruled request."""

    mixed_precision: Precision
    reasons: tuple[DecisionReason, ...]
    requested: str = ""


@dataclass(frozen=True, slots=True)
class RankSlot:
    """One rank of a node. CPU ranks have no GPU."""

    local_rank: int
    gpu_uuid: str | None
    gpu_index: int | None
    gpu_name: str = ""


@dataclass(frozen=True, slots=True)
class NodeRanks:
    """The ranks of one host, and whether each sees only its own GPU.

    Where it is False, all ranks of the node see the same ordered list of GPUs and pick by LOCAL_RANK.
    """

    slots: tuple[RankSlot, ...]
    single_gpu_visible: bool
    reasons: tuple[DecisionReason, ...]

    def gpus_of(self, facts: HostFacts) -> list[Gpu]:
        """Return those of the host's known GPUs that a rank uses."""
        used = {slot.gpu_uuid for slot in self.slots}
        return [gpu for gpu in facts.known_gpus if gpu.uuid in used]
