"""State of the training in this rank: its optimizers, their step counts, and the step about to be taken."""

import sys
import weakref
from typing import Any, NamedTuple

from .context import GuardContext, RankServices
from .sampling_policy import DTYPES_SHARE, VALUES_SHARE, TimeBudget
from .tensors import list_parameters

DIVIDE_BY_EPS = ("Adam", "AdamW", "NAdam", "RMSprop")
"""Optimizers of torch whose first step is x/0 where eps is lost; others are reported when it happens (G4)."""


class WatchedOptimizer:
    """Step counts and check results of one optimizer."""

    def __init__(self, optimizer: Any) -> None:
        kind = type(optimizer)
        self.tries = 0  # performed or skipped by a scaler
        self.skips = 0
        self.fired = 0  # steps that were performed
        torchs = kind.__module__.startswith("torch.optim") and hasattr(optimizer, "defaults")
        self.is_adam = torchs and "betas" in optimizer.defaults
        self.divides_by_eps = torchs and kind.__name__ in DIVIDE_BY_EPS
        self.last_good = 0  # the last step after which the weights were finite
        self.without_gradient: set[int] | None = None
        self.last_sample = 0  # the last step whose values were checked
        self.values_budget = TimeBudget(VALUES_SHARE)
        self.dtypes_budget = TimeBudget(DTYPES_SHARE)


class TrainingState:
    """State of the training in this rank."""

    def __init__(self, place: GuardContext, tools: RankServices) -> None:
        self.place = place
        self.tools = tools
        self.torch: Any = None  # until the script has imported it
        self.optimizers: weakref.WeakKeyDictionary[Any, WatchedOptimizer] = weakref.WeakKeyDictionary()
        self.fired = 0  # steps that were performed, by all optimizers
        self.has_scaler = False  # whether an enabled GradScaler is in use
        self._last: tuple[weakref.ref[Any], WatchedOptimizer] | None = None

    def record(self, optimizer: Any) -> WatchedOptimizer:
        """Return the record of an optimizer."""
        if self._last is not None and self._last[0]() is optimizer:
            return self._last[1]
        found = self.optimizers.get(optimizer)
        if found is None:
            found = self.optimizers[optimizer] = WatchedOptimizer(optimizer)
        self._last = weakref.ref(optimizer), found
        return found

    def step_now(self) -> int:
        """Return the number of the last step that was started, by the optimizer with the most steps."""
        return max((each.tries for each in self.optimizers.values()), default=0)


class Step(NamedTuple):
    """A step that an optimizer is about to perform."""

    training: TrainingState
    optimizer: Any
    watched: WatchedOptimizer
    has_closure: bool  # the gradients are made inside the step

    @property
    def number(self) -> int:
        """Number of this step for its optimizer."""
        return self.watched.tries

    def list_trainable(self) -> list[Any]:
        """Return the parameters of the optimizer."""
        return list(list_parameters(self.optimizer))


def read_mixed_precision() -> str | None:
    """Return accelerate's mixed precision setting, None when accelerate is not in use."""
    state = sys.modules.get("accelerate.state")
    shared = getattr(getattr(state, "AcceleratorState", None), "_shared_state", None) or {}
    found = shared.get("_mixed_precision")
    return None if found is None else str(getattr(found, "value", found))
