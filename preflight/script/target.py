"""What a script is read for: the hardware, versions and arguments under which it would run."""

from collections.abc import Mapping
from dataclasses import field, fields
from operator import attrgetter

from preflight.facts.gpu import Capability
from preflight.frozen import dataclass
from preflight.job import Precision

ASSUMED_CAPABILITIES = ((7, 5), (8, 0))
"""What GPUs before and from Ampere on answer a script, when the GPUs that it will run on are not known."""

SEVERAL = 2  # a launch of unknown size is read so; what depends on it is at most a warning


@dataclass(frozen=True, slots=True)
class RankTarget:
    """One kind of rank. A script that asks the hardware is read for each, so that each answer is one."""

    capability: Capability | None = None  # None: CPU ranks
    processes: int | None = None  # world size; None when not known
    launch: Precision | None = None  # mixed precision that the launch gives; None when not known
    args: tuple[str, ...] | None = None  # the script's arguments; None when not known: its defaults then
    versions: Mapping[str, str] = field(default_factory=dict)  # distribution -> version, where known
    switches: tuple[str, ...] = ()  # given besides, as "--name": what the script does with them

    spawns: bool = False  # the script starts its ranks itself
    nodes: int | None = None  # of the launch; None when not known

    @property
    def world(self) -> int:
        """The world size that the script gets: where it is not known, one of several processes."""
        return self.processes or SEVERAL

    @property
    def before_ampere(self) -> bool:
        """Whether the GPU is older than Ampere; a CPU rank has none."""
        return self.capability is not None and self.capability < (8, 0)

    def version(self, distribution: str) -> tuple[int, ...] | None:
        """Return a version as numbers, e.g. (5, 23), None when it is not known."""
        text = self.versions.get(distribution)
        if text is None:
            return None
        numbers: list[int] = []
        for part in text.split("+")[0].split("."):
            digits = part[: len(part) - len(part.lstrip("0123456789"))]
            if not digits:
                break
            numbers.append(int(digits))
        return tuple(numbers) or None

    def is_at_least(self, distribution: str, *version: int) -> bool | None:
        """Return whether the installed version is at least this, None when it is not known."""
        have = self.version(distribution)
        return None if have is None else have >= version


def differ_by_gpu(one: RankTarget, other: RankTarget) -> bool:
    """Whether two kinds of ranks, both with a GPU, have at most the compute capability apart."""
    if one.capability is None or other.capability is None:
        return False
    return bool(_BESIDE_GPU(one) == _BESIDE_GPU(other))


_BESIDE_GPU = attrgetter(*(item.name for item in fields(RankTarget) if item.name != "capability"))
