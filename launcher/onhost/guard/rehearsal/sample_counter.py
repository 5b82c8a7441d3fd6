"""How many samples a script's DataLoaders give, so that its own loop has samples per second too."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..patches import rename
from ..safe_call import SafeCaller


class SampleCounter:
    """Counts what DataLoaders give, by dataset."""

    def __init__(self) -> None:
        self._given: dict[int, int] = {}
        self._given_before: dict[int, int] = {}  # the same, when the first step had ended

    def watch_loaders(self, module: ModuleType, safety: SafeCaller) -> None:
        """Listen to torch.utils.data.dataloader."""
        base: Any = getattr(module, "_BaseDataLoaderIter")  # noqa: B009 - it is torch's own
        original = base.__next__

        def following(iterator: Any) -> Any:
            batch = original(iterator)
            if safety.is_active():
                safety.call("count samples", self._gave, iterator, batch)
            return batch

        base.__next__ = rename(original, following)

    def first_step_ended(self) -> None:
        """Count from here on: what came before was given while everything warmed up."""
        self._given_before = dict(self._given)

    def per_step(self, steps: int) -> float | None:
        """Return how many of the training set each of the last `steps` took, None when none was seen."""
        given = [count - self._given_before.get(key, 0) for key, count in self._given.items()]
        return max(given) / steps if steps > 0 and given and max(given) > 0 else None

    def _gave(self, iterator: Any, batch: Any) -> None:
        key = id(iterator._dataset)  # noqa: SLF001 - torch's own name for it
        self._given[key] = self._given.get(key, 0) + _length(batch)


def _length(batch: Any) -> int:
    """Return how many samples a batch holds: the first dimension of its first tensor."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((size for size in map(_length, batch) if size), 0)
    shape: Any = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else 0
