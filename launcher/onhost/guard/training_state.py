"""The training in this rank: its optimizers, how often they have stepped, and the step about to be taken."""

from __future__ import annotations

import sys
import weakref
from typing import Any, NamedTuple

from .context import GuardContext, RankServices
from .tensors import trained_parameters

DIVIDE_BY_EPS = ("Adam", "AdamW", "NAdam", "RMSprop")
"""Optimizers of torch whose first step is x/0 where eps is lost; what others do is reported when seen (G4).
"""


class WatchedOptimizer:
    """One optimizer: how often it has stepped, and what was seen of it."""

    def __init__(self, optimizer: Any) -> None:
        kind = type(optimizer)
        self.tries = 0  # performed or skipped by a scaler
        self.skips = 0
        self.fired = 0  # steps that were performed
        torchs = kind.__module__.startswith("torch.optim") and hasattr(optimizer, "defaults")
        self.is_adam = torchs and "betas" in optimizer.defaults
        self.divides_by_eps = torchs and kind.__name__ in DIVIDE_BY_EPS
        self.last_good = 0  # the last step after which the weights were seen finite
        self.without_gradient: set[int] | None = None


class TrainingState:
    """What is known of the training in this rank."""

    def __init__(self, place: GuardContext, tools: RankServices) -> None:
        self.place = place
        self.tools = tools
        self.torch: Any = None  # until the script has imported it
        self.optimizers: weakref.WeakKeyDictionary[Any, WatchedOptimizer] = weakref.WeakKeyDictionary()
        self.fired = 0  # steps that were performed, by all optimizers
        self.has_scaler = False  # whether an enabled GradScaler is in use

    def record(self, optimizer: Any) -> WatchedOptimizer:
        """Return what is kept about an optimizer."""
        found = self.optimizers.get(optimizer)
        if found is None:
            found = self.optimizers[optimizer] = WatchedOptimizer(optimizer)
        return found

    def step_now(self) -> int:
        """Return the number of the last step that was started, counted by the busiest optimizer."""
        return max((each.tries for each in self.optimizers.values()), default=0)


class Step(NamedTuple):
    """A step that an optimizer is about to perform."""

    training: TrainingState
    optimizer: Any
    watched: WatchedOptimizer
    has_closure: bool  # the gradients are made inside the step

    @property
    def number(self) -> int:
        """Which step of this optimizer it is."""
        return self.watched.tries

    def trainable(self) -> list[Any]:
        """Return what the optimizer trains."""
        return list(trained_parameters(self.optimizer))


def mixed_precision() -> str | None:
    """Return what accelerate has been set up with, None when it is not in use."""
    state = sys.modules.get("accelerate.state")
    shared = getattr(getattr(state, "AcceleratorState", None), "_shared_state", None) or {}
    found = shared.get("_mixed_precision")
    return None if found is None else str(getattr(found, "value", found))
