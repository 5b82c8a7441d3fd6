"""DeepSpeed's three batch sizes, each from one or two of them (deepspeed/runtime/config.py). Pure."""

from collections.abc import Mapping
from typing import Any, ClassVar

from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """What a config says of the batch, with what DeepSpeed makes of it for a number of ranks."""

    NAMES: ClassVar = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")

    given: Mapping[str, int]  # by name; "auto" and what is left out are absent
    world: int

    @classmethod
    def of(cls, content: Mapping[str, Any], world: int) -> "BatchSizes":
        """Return those of a config; values other than whole numbers count as not given."""
        values = {name: content.get(name) for name in cls.NAMES}
        given = {name: int(value) for name, value in values.items() if type(value) is int}
        return cls(given, world)

    @property
    def train(self) -> int | None:
        """The batch of all ranks together, None where it follows from the others."""
        return self.given.get(self.NAMES[0])

    @property
    def micro(self) -> int:
        """The batch of one rank in one pass."""
        named = self.given.get(self.NAMES[1])
        return named if named is not None else (self.train or 0) // self.world // self.accumulation_or_one

    @property
    def accumulation_or_one(self) -> int:
        """How many passes make a step, 1 where the config does not say it."""
        return self.given.get(self.NAMES[2]) or 1

    @property
    def accumulation(self) -> int:
        """How many passes make a step, as DeepSpeed computes it."""
        if self.NAMES[2] in self.given or self.train is None or self.NAMES[1] not in self.given:
            return self.accumulation_or_one
        return self.train // max(1, self.micro) // self.world

    @property
    def product(self) -> int:
        """What train_batch_size has to be."""
        return self.micro * self.accumulation * self.world

    @property
    def unit(self) -> int:
        """What train_batch_size has to be a multiple of, where one of the others is left out."""
        return self.given.get(self.NAMES[1], 1) * self.given.get(self.NAMES[2], 1) * self.world

    @property
    def said_unit(self) -> str:
        """That number and how it comes about, for messages."""
        parts = [f"{self.given[name]} ({word})" for name, word in _WORDS if name in self.given]
        ranks = f"{self.world} rank{'s' * (self.world != 1)}"
        return f"{' x '.join((*parts, ranks))} = {self.unit}" if parts else ranks

    @property
    def said_product(self) -> str:
        """How the product comes about, for messages."""
        return f"{self.micro} (micro batch) x {self.accumulation} (accumulation) x {self.world} ranks"


_WORDS = (("train_micro_batch_size_per_gpu", "micro batch"), ("gradient_accumulation_steps", "accumulation"))


def find_nearest_multiples(number: int, unit: int) -> tuple[int, int]:
    """Return the multiples of `unit` below and above a number; the first can be 0."""
    low = number // unit * unit
    return low, low + unit
