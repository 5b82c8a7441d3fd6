"""Count of the samples from a script's DataLoaders: samples per second for scripts with their own loop."""

from types import ModuleType
from typing import Any

from ..patches import rename
from ..safe_call import SafeCaller


class SampleCounter:
    """Count of samples from DataLoaders, by dataset."""

    def __init__(self) -> None:
        self._given: dict[int, int] = {}
        self._given_before: dict[int, int] = {}  # the same, at the end of the first step

    def watch_loaders(self, module: ModuleType, safety: SafeCaller) -> None:
        """Hook into torch.utils.data.dataloader."""
        base: Any = getattr(module, "_BaseDataLoaderIter")  # noqa: B009 - a private class of torch
        original = base.__next__

        def following(iterator: Any) -> Any:
            batch = original(iterator)
            if safety.is_active():
                safety.call("count samples", self._gave, iterator, batch)
            return batch

        base.__next__ = rename(original, following)

    def first_step_ended(self) -> None:
        """Start the count: samples of the first step were loaded during warm-up."""
        self._given_before = dict(self._given)

    def per_step(self, steps: int) -> float | None:
        """Return the training samples per step over the last `steps`, None when no DataLoader was seen."""
        given = [count - self._given_before.get(key, 0) for key, count in self._given.items()]
        return max(given) / steps if steps > 0 and given and max(given) > 0 else None

    def _gave(self, iterator: Any, batch: Any) -> None:
        key = id(iterator._dataset)  # noqa: SLF001 - torch's own name for it
        self._given[key] = self._given.get(key, 0) + _length(batch)


def _length(batch: Any) -> int:
    """Return the number of samples in a batch: the first dimension of its first tensor."""
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return next((size for size in map(_length, batch) if size), 0)
    shape: Any = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else 0
